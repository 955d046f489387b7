"""How long the broker's event loop stands still for work that grows with its tables: less than 50 ms."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from skyrocket.broker.load.counters import KEYS_MAX
from skyrocket.broker.pull.handler import RECHECK_MS
from skyrocket.net.connection import Connection
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.brokers.running_broker import RunningBroker, pull_header, running
from tests.support.processes.loop_pauses import measured_pauses
from tests.support.waiting import WAIT_S_MAX

PULLS = 30_000


class Client:
    """A client that counts the frames it gets."""

    is_open, is_full, peer_text, last_read_ms = True, False, "10.0.0.7:40001", 0

    def __init__(self) -> None:
        self.answers = 0

    def send(self, data: Any) -> None:
        self.answers += len(FrameSplitter().feed(data if isinstance(data, bytes) else b"".join(data)))

    def send_command(self, command: Command) -> None:
        self.send(encode_command(command))


async def until(is_so: Any) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 — the parts send no event
            await asyncio.sleep(0.005)


def park_pulls(served: RunningBroker, client: Client, pulls: int = PULLS) -> None:
    """Let many pulls wait for the second message of a queue."""
    for opaque in range(pulls):
        fields = pull_header("orders", 1, hold_ms=600_000).to_fields()
        command = Command(RequestCode.PULL_MESSAGE, fields=fields, opaque=opaque)
        assert served.broker.pull.handle(command, cast("Connection", client)) is None
    assert served.broker.pull.waiting == pulls


async def test_a_look_at_all_waiting_pulls(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"0")
        client = Client()
        park_pulls(served, client)
        handler, looks = served.broker.pull, 0
        retry = handler._retry

        def count(waiting: Any) -> Any:
            nonlocal looks
            looks += 1
            return retry(waiting)

        handler._retry = count  # type: ignore[method-assign]
        async with measured_pauses() as pauses:
            handler._last_recheck_ms -= RECHECK_MS
            while looks < PULLS:
                handler.check_time(served.broker.context.now_ms())
                await asyncio.sleep(0)
        pauses.check()
        assert (handler.waiting, client.answers) == (PULLS, 0)
        handler.drop_connection(cast("Connection", client))


async def test_many_pulls_whose_time_is_up(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"0")
        client = Client()
        park_pulls(served, client)
        async with measured_pauses() as pauses:
            served.broker.pull.check_time(served.broker.context.now_ms() + 600_001)
            await until(lambda: client.answers == PULLS)
        pauses.check()
        assert served.broker.pull.waiting == 0


async def test_one_message_for_many_waiting_pulls(tmp_path: Path):
    async with running(tmp_path) as served:
        await served.send("orders", b"0")
        client = Client()
        park_pulls(served, client, 10_000)
        async with measured_pauses() as pauses:
            await served.send("orders", b"1")
            await until(lambda: client.answers == 10_000)
        pauses.check()


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        pytest.param(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, id="of all groups"),
        pytest.param(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "group-0"}, id="of a group"),
        pytest.param(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "wide", "group": "group-0"}, id="times of a group"),
        pytest.param(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "wide"}, id="of a topic"),
    ],
)
async def test_statistics_of_many_queues(tmp_path: Path, code: int, fields: dict[str, str]):
    async with running(tmp_path) as served:
        broker = served.broker
        queues = 10_000 if code != RequestCode.GET_BROKER_CONSUME_STATS else 250
        broker.topics.put(TopicConfig(topic_name="wide", read_queue_nums=queues, write_queue_nums=queues))
        await served.send("wide", b"0")
        for number in range(40):
            broker.groups.for_consumer(f"group-{number}")
            broker.offsets.commit(f"group-{number}", "wide", 0, 1)
        async with measured_pauses() as pauses:
            answer = await served.dialer.request(served.address, Command(code, fields=fields), 60_000)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.body.count(b'"queueId":') == 10_000
        pauses.check()


@pytest.mark.parametrize("size_bytes", [16_000, 500_000, 4_000_000])
async def test_a_body_in_fastjsons_dialect(tmp_path: Path, size_bytes: int):
    async with running(tmp_path) as served:
        body = b'{"clientID":"client-1","consumerDataSet":[' + b"[]," * (size_bytes // 3) + b"{{}:1}]}"
        async with measured_pauses() as pauses:
            answer = await served.ask(RequestCode.HEART_BEAT, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert ("16384 are allowed in fastjson's dialect" in (answer.remark or "")) == (size_bytes > 16_384)
        pauses.check()


async def test_samples_of_many_counters(tmp_path: Path):
    async with running(tmp_path) as served:
        counters = served.broker.context.counters
        for number in range(KEYS_MAX - len(counters._keyed)):
            counters.add("kind", f"key-{number}", 1, 1)
        async with measured_pauses() as pauses:
            counters._last_sample_ms = 0
            await until(lambda: counters._last_sample_ms and not counters._unsampled)
        pauses.check()
