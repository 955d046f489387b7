"""Offsets of consumers: start positions, offset files, resets by administrators, kills and crashes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skyrocket.client import Consumer, Received
from skyrocket.protocol.headers import ResetOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.client.consumer_support import QUICK, broker_address, make_topic, numbered, numbers, send, take
from tests.client.servers import Servers, reader, until
from tests.support.waiting import WAIT_S_MAX


async def test_new_group_gets_all_messages_of_a_young_queue_for_any_start(servers: Servers):
    """A broker reports offset 0 for a queue that it still has from its first message on, so `start` has no effect.

    It has an effect only for queues whose first messages are no longer in memory, and for retry topics.
    """
    topic = servers.topic("moment")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(3))
    for start in ("first", "last", time.time_ns() // 1_000_000):
        group = f"{topic}-{str(start)[:5]}"
        async with Consumer(servers.nameserver, group=group, topics=topic, start=start, consumer_limits=QUICK) as consumer:
            assert numbers(await take(consumer, 3)) == [0, 1, 2]


async def test_broadcasting_members_get_all_messages_and_keep_offsets_in_files(servers: Servers, tmp_path: Path):
    topic = servers.topic("broadcast")

    def member(name: str) -> Consumer:
        return Consumer(
            servers.nameserver,
            group=topic,
            topics=topic,
            start="first",
            broadcasting=True,
            offsets_folder=tmp_path,
            instance=name,
            consumer_limits=QUICK,
        )

    await make_topic(servers, topic, 2)
    await send(servers, topic, numbered(20))
    async with member("one") as one, member("two") as two:
        both = await asyncio.gather(take(one, 20), take(two, 20))
        assert len(one.queues) == len(two.queues) == 2
    assert [sorted(numbers(found)) for found in both] == [list(range(20))] * 2
    assert len(list(tmp_path.rglob("offsets.json"))) == 2  # noqa: ASYNC240
    await send(servers, topic, numbered(25, since=20))
    async with member("one") as again:
        assert sorted(numbers(await take(again, 5))) == list(range(20, 25))


async def test_failing_broadcast_message_is_skipped_and_logged(
    servers: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    topic = servers.topic("broadcast-fails")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(3))
    consumer = Consumer(
        servers.nameserver, group=topic, start="first", broadcasting=True, offsets_folder=tmp_path, consumer_limits=QUICK
    )
    got: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))
        if message.body == b"1":
            raise ValueError("no")

    async with consumer:
        await until(lambda: len(got) == 3, "three messages")
    assert "does not retry" in caplog.text


async def test_reset_moves_a_running_group(servers: Servers):
    topic = servers.topic("reset")
    await make_topic(servers, topic, 2)
    await send(servers, topic, numbered(20))
    got: list[int] = []
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))

    async with consumer, reader(servers) as read:
        await until(lambda: len(got) >= 20, "all messages once")
        await consumer.commit()
        header = ResetOffsetRequestHeader(topic=topic, group=topic, timestamp=0, is_force=True)
        address = await broker_address(read)
        await read.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout_ms=20_000)
        await until(lambda: len(got) >= 40, "all messages twice")
        await asyncio.sleep(0.2)
    assert sorted(got) == sorted(2 * list(range(20)))


CONSUMER_SCRIPT = """
import asyncio, sys
from skyrocket.client import Consumer, ConsumerLimits
async def main():
    consumer = Consumer(sys.argv[1], group=sys.argv[2], start="first", consumer_limits=ConsumerLimits(commit_ms=50))
    @consumer.on(sys.argv[2])
    async def handle(message):
        if message.body == b"7":
            await asyncio.sleep(1000)
        print(message.body.decode(), flush=True)
    await consumer.run()
asyncio.run(main())
"""


async def test_killed_consumer_loses_no_unfinished_message(servers: Servers):
    """One message is slow and all others are finished when the process is killed. The next member gets the slow one again."""
    topic = servers.topic("killed")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(100))
    process = subprocess.Popen(  # noqa: ASYNC220 — the test kills it
        [sys.executable, "-c", CONSUMER_SCRIPT, servers.nameserver, topic], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        os.set_blocking(process.stdout.fileno(), False)
        done: list[int] = []
        deadline = time.monotonic() + WAIT_S_MAX
        while len(done) < 99 and time.monotonic() < deadline:
            done += map(int, (process.stdout.read() or b"").split())
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # several commit periods
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert sorted([*done, 7]) == list(range(100))
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="last", consumer_limits=QUICK) as consumer:
        assert numbers(await take(consumer, 93)) == list(range(7, 100))


async def test_queues_of_a_crashed_member_are_taken_over(servers: Servers):
    topic = servers.topic("crashed")
    await make_topic(servers, topic, 8)
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", CONSUMER_SCRIPT, servers.nameserver, topic], stdout=subprocess.DEVNULL
        )
        try:
            await until(lambda: len(consumer.queues) == 4, "the other member has its share")
        finally:
            process.kill()
            process.wait()
        await until(lambda: len(consumer.queues) == 8, "all queues are taken over")
