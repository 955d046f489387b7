"""Timers and recalls as a client sees them: over a connection, with a clock that the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.protocol.bodies import TimerMetricsSerializeWrapper
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from skyrocket.protocol.message.recall_handle import RecallHandle, decode_recall_handle
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import SMALL, RunningBroker, records

BEGIN_MS = 1_700_000_000_000


class Timed(RunningBroker):
    def __init__(self, broker: Broker, clock: list[int]) -> None:
        super().__init__(broker)
        self.clock = clock

    async def send_timed(self, key: str, after_ms: int) -> Command:
        properties = {"UNIQ_KEY": key, "TIMER_DELIVER_MS": str(self.clock[0] + after_ms)}
        return await self.send("orders", key.encode(), properties=properties)

    async def recall(self, handle: str | None, topic: str = "orders") -> Command:
        header = RecallMessageRequestHeader(topic=topic, recall_handle=handle or "", producer_group="group")
        return await self.ask(RequestCode.RECALL_MESSAGE, header)

    async def pass_ms(self, span_ms: int) -> None:
        end_ms = self.clock[0] + span_ms
        while self.clock[0] < end_ms:
            self.clock[0] = min(end_ms, self.clock[0] + 500)
            self.broker.scheduler.clock_changed()
            await asyncio.sleep(0.005)

    async def delivered(self, count: int) -> list[str]:
        for _ in range(400):
            found = [record.body.decode() for record in records(await self.pull("orders", 0))]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)
        raise AssertionError(f"{found} are not {count}")


@asynccontextmanager
async def recall_broker(path: Path, clock: list[int] | None = None, **changes: Any) -> AsyncIterator[Timed]:
    clock = clock or [BEGIN_MS]
    settings = replace(SMALL, store_path=str(path / "store"), **{"recall_enabled": True, **changes})
    broker = Broker(settings, wall_ms=lambda: clock[0])
    await broker.start()
    served = Timed(broker, clock)
    try:
        yield served
    finally:
        await served.dialer.close()
        await broker.close()


@pytest.mark.parametrize("sync_flush", [False, True])
async def test_what_is_recalled_before_its_time_is_not_delivered(tmp_path: Path, sync_flush: bool):
    async with recall_broker(tmp_path, sync_flush=sync_flush) as served:
        first = await served.send_timed("KEEP", 5_400)
        second = await served.send_timed("TAKE", 5_300)
        handle = second.fields["recallHandle"]
        assert decode_recall_handle(handle) == RecallHandle("orders", "broker-a", BEGIN_MS + 5_001, "TAKE")
        assert first.fields["recallHandle"] != handle
        answer = await served.recall(handle)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert answer.header(RecallMessageResponseHeader).msg_id == "TAKE"
        await served.send_timed("LAST", 7_000)
        await served.pass_ms(9_000)
        assert await served.delivered(2) == ["KEEP", "LAST"]


async def test_timers_and_recalls_wait_across_a_restart(tmp_path: Path):
    clock = [BEGIN_MS]
    async with recall_broker(tmp_path, clock) as served:
        for number in range(5):
            sent = await served.send_timed(f"KEY{number}", 2_000 + 900 * number)
        await served.recall(sent.fields["recallHandle"])
        await served.pass_ms(3_000)
        assert await served.delivered(2) == ["KEY0", "KEY1"]
    async with recall_broker(tmp_path, clock) as served:
        await served.pass_ms(5_000)
        assert await served.delivered(4) == ["KEY0", "KEY1", "KEY2", "KEY3"]
        answer = await served.ask(RequestCode.GET_TIMER_METRICS)
        assert decode(answer.body, TimerMetricsSerializeWrapper).timing_count["orders"].count == 0
        checkpoint = await served.ask(RequestCode.GET_TIMER_CHECK_POINT)
        assert int.from_bytes(checkpoint.body[16:24]) == 6, "messages of the timer topic that were taken in"


async def test_a_recall_that_cannot_be_is_refused_with_apaches_codes(tmp_path: Path):
    async with recall_broker(tmp_path) as served:
        handle = (await served.send_timed("KEY", 5_000)).fields["recallHandle"]
        known = decode_recall_handle(handle)
        answers = {
            "an unknown topic": await served.recall(handle, "nowhere"),
            "another topic": await served.recall(handle, "BenchmarkTest"),
            "no handle": await served.recall("!!"),
            "another broker": await served.recall(known._replace(broker_name="broker-b").encode()),
            "too late": await served.recall(known._replace(time_ms=BEGIN_MS).encode()),
            "too far": await served.recall(known._replace(time_ms=BEGIN_MS + 3 * 86_400_000).encode()),
        }
        assert {what: answer.code for what, answer in answers.items()} == {
            "an unknown topic": ResponseCode.TOPIC_NOT_EXIST,
            **dict.fromkeys(list(answers)[1:], ResponseCode.ILLEGAL_OPERATION),
        }


async def test_without_the_setting_nothing_is_recalled(tmp_path: Path):
    async with recall_broker(tmp_path, recall_enabled=False) as served:
        handle = (await served.send_timed("KEY", 5_000)).fields["recallHandle"]
        assert (await served.recall(handle)).code == ResponseCode.NO_PERMISSION


async def test_nobody_sends_to_the_timer_topic(tmp_path: Path):
    async with recall_broker(tmp_path) as served:
        answer = await served.send("rmq_sys_wheel_timer", b"junk")
        assert answer.code == ResponseCode.NO_PERMISSION
