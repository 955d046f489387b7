"""A broker whose machine's clock jumps by an hour or a day: schedules go on, and stamps never go back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.steady_clock import BrokerClocks
from skyrocket.net.dialer import Dialer
from skyrocket.net.router import Router
from skyrocket.protocol.bodies import HeartbeatData, ProducerData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.headers import RecallMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from tests.support.brokers.jumping_clock import HOUR_MS, JUMPS, SECOND_MS, JumpingClock
from tests.support.brokers.running_broker import SMALL, RunningBroker, records

LEVEL_3_MS = 10 * SECOND_MS
STEP_MS = 250

jumped = pytest.mark.parametrize("jumps", JUMPS.values(), ids=JUMPS)


class Jumping(RunningBroker):
    def __init__(self, broker: Broker, clock: JumpingClock) -> None:
        super().__init__(broker)
        self.clock = clock

    async def pass_ms(self, span_ms: int) -> None:
        while span_ms > 0:
            self.clock.pass_ms(min(STEP_MS, span_ms))
            span_ms -= STEP_MS
            await self.settle()

    async def jump(self, jumps: tuple[int, ...]) -> None:
        """Let the machine's clock jump, with a second after each jump."""
        for jump_ms in jumps:
            self.clock.jump(jump_ms)
            await self.pass_ms(SECOND_MS)

    async def settle(self) -> None:
        """Wait until the broker has done what is due, also what its threads do with files meanwhile."""
        log, last = self.broker.store.log, -1
        threads = self.broker.scheduler._fetching
        while log.end != last or threads:
            last = log.end
            await asyncio.gather(*threads.values())
            self.broker.scheduler.clock_changed()
            for _ in range(4):
                await asyncio.sleep(0)

    async def bodies(self, topic: str = "orders") -> list[str]:
        return [record.body.decode() for record in records(await self.pull(topic, 0))]

    async def delay(self, name: str) -> None:
        assert (await self.send("orders", name.encode(), properties={"UNIQ_KEY": name, "DELAY": "3"})).code == 0

    async def time(self, name: str, after_ms: int) -> Command:
        properties = {"UNIQ_KEY": name, "TIMER_DELIVER_MS": str(self.clock.machine() + after_ms)}
        return await self.send("orders", name.encode(), properties=properties)


@asynccontextmanager
async def jumping_broker(path: Path, clock: JumpingClock, **changes: Any) -> AsyncIterator[Jumping]:
    settings = replace(SMALL, store_path=str(path / "store"), recall_enabled=True, **changes)
    broker = Broker(settings, clocks=BrokerClocks.of(clock.machine, clock.monotonic))
    await broker.start()
    served = Jumping(broker, clock)
    try:
        yield served
    finally:
        await served.dialer.close()
        await broker.close()


@jumped
async def test_a_delayed_message_that_waits_is_not_late_after_a_jump(tmp_path: Path, jumps: tuple[int, ...]):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        await served.delay("waits")
        for jump_ms in jumps:
            await served.pass_ms(SECOND_MS)
            clock.jump(jump_ms)
        if all(jump_ms <= 0 for jump_ms in jumps):
            await served.pass_ms(LEVEL_3_MS - len(jumps) * SECOND_MS - STEP_MS)
            assert await served.bodies() == [], "it is early"
        await served.pass_ms(LEVEL_3_MS * 2 // 10 + SECOND_MS)
        if any(jump_ms > 0 for jump_ms in jumps):
            await served.pass_ms(LEVEL_3_MS)
        assert await served.bodies() == ["waits"]


@jumped
async def test_a_delayed_message_that_is_sent_after_a_jump_comes_on_time(tmp_path: Path, jumps: tuple[int, ...]):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        await served.send("orders", b"before")
        for jump_ms in jumps:
            clock.jump(jump_ms)
            await served.settle()
        await served.pass_ms(5 * SECOND_MS)
        await served.delay("first")
        await served.pass_ms(5 * SECOND_MS)
        await served.delay("second")
        await served.pass_ms(5 * SECOND_MS - STEP_MS)
        assert await served.bodies() == ["before"], "it is early"
        await served.pass_ms(3 * SECOND_MS)
        assert await served.bodies() == ["before", "first"]
        await served.pass_ms(5 * SECOND_MS)
        assert await served.bodies() == ["before", "first", "second"]
        stamps = [record.store_timestamp for record in records(await served.pull("orders", 0))]
        assert stamps == sorted(stamps)


@jumped
async def test_a_timed_message_that_is_sent_after_a_jump_comes_on_time(tmp_path: Path, jumps: tuple[int, ...]):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        await served.time("before", 2 * SECOND_MS)
        await served.pass_ms(3 * SECOND_MS)
        await served.jump(jumps)
        await served.time("on time", 10 * SECOND_MS)
        taken = await served.time("recalled", 10 * SECOND_MS)
        recall = RecallMessageRequestHeader(topic="orders", recall_handle=taken.fields["recallHandle"], producer_group="group")
        assert (await served.ask(RequestCode.RECALL_MESSAGE, recall)).code == ResponseCode.SUCCESS
        await served.pass_ms(10 * SECOND_MS - STEP_MS)
        assert await served.bodies() == ["before"], "it is early"
        await served.pass_ms(2 * STEP_MS)
        assert await served.bodies() == ["before", "on time"]
        await served.pass_ms(2 * SECOND_MS)
        assert await served.bodies() == ["before", "on time"], "it was recalled"


@jumped
async def test_timers_wait_across_a_restart_after_a_jump(tmp_path: Path, jumps: tuple[int, ...]):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        await served.time("before", 2 * SECOND_MS)
        await served.pass_ms(3 * SECOND_MS)
        await served.jump(jumps)
        await served.time("at once", 2 * SECOND_MS)
        await served.time("later", 10 * SECOND_MS)
        await served.pass_ms(3 * SECOND_MS)
        assert await served.bodies() == ["before", "at once"]
    async with jumping_broker(tmp_path, clock) as served:
        await served.pass_ms(6 * SECOND_MS)
        assert await served.bodies() == ["before", "at once"], "one is early, or came twice"
        await served.pass_ms(2 * SECOND_MS)
        assert await served.bodies() == ["before", "at once", "later"]


class Producer:
    """A producer that is asked about its transactions, and does not answer."""

    def __init__(self) -> None:
        self.asked = 0
        router = Router()
        router.add(RequestCode.CHECK_TRANSACTION_STATE, self._ask)
        self.dialer = Dialer(router)

    def _ask(self, _command: Command, _connection: object) -> None:
        self.asked += 1

    async def join(self, address: str) -> None:
        body = encode(HeartbeatData(client_id="producer", producer_data_set=[ProducerData(group_name="shop")]))
        assert (await self.dialer.request(address, Command(RequestCode.HEART_BEAT, body=body), 5_000)).code == 0


async def until_asked(producer: Producer, times: int) -> None:
    async with asyncio.timeout(60):
        while producer.asked < times:  # noqa: ASYNC110 — the requests come over a socket
            await asyncio.sleep(0.002)


@jumped
async def test_producers_of_half_messages_are_asked_after_a_jump(tmp_path: Path, jumps: tuple[int, ...]):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        producer = Producer()
        await producer.join(served.address)

        async def send_half(name: str) -> None:
            given = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": "shop"}
            sent = await served.send(
                "orders", name.encode(), properties=given, sys_flag=TRANSACTION_PREPARED, born_timestamp=clock.machine()
            )
            assert sent.code == 0

        await send_half("one")
        for jump_ms in jumps:
            clock.jump(jump_ms)
            await served.settle()
        await send_half("two")
        await served.pass_ms(80 * SECOND_MS)  # two rounds, each up to a tenth later, and the time-out of 6 s
        await until_asked(producer, 2)
        await producer.dialer.close()


async def test_a_store_whose_last_stamp_is_ahead_of_the_clock_delays_and_asks_on_time(tmp_path: Path):
    clock = JumpingClock()
    async with jumping_broker(tmp_path, clock) as served:
        await served.send("orders", b"before")
    clock.jump(-HOUR_MS)
    async with jumping_broker(tmp_path, clock) as served:
        await served.delay("later")
        await served.pass_ms(LEVEL_3_MS - STEP_MS)
        assert await served.bodies() == ["before"]
        await served.pass_ms(LEVEL_3_MS * 2 // 10)
        assert await served.bodies() == ["before", "later"]
        stamps = [record.store_timestamp for record in records(await served.pull("orders", 0))]
        assert stamps == sorted(stamps)
