"""Where consumers begin, what they keep, and what moves them: start positions, broadcasting, resets, kills."""

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
from tests.client.consuming import QUICK, address_of, make, numbered, numbers, send, taken
from tests.client.servers import WAIT_S_MAX, Servers, reader, until


async def test_a_group_starts_at_a_moment_where_the_broker_knows_no_offset(servers: Servers):
    """A broker tells 0 for young queues that it has from the beginning on, whatever was asked for; so the rule shows only once
    a group has read nothing of a queue whose first messages left memory, or at its retry topic. Here: all the same everywhere."""
    topic = servers.topic("moment")
    await make(servers, topic, 1)
    await send(servers, topic, numbered(3))
    for start in ("first", "last", time.time_ns() // 1_000_000):
        group = f"{topic}-{str(start)[:5]}"
        async with Consumer(servers.nameserver, group=group, topics=topic, start=start, consumer_limits=QUICK) as consumer:
            assert numbers(await taken(consumer, 3)) == [0, 1, 2]


async def test_broadcasting_gives_every_member_everything_and_keeps_offsets_in_a_file(servers: Servers, tmp_path: Path):
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

    await make(servers, topic, 2)
    await send(servers, topic, numbered(20))
    async with member("one") as one, member("two") as two:
        both = await asyncio.gather(taken(one, 20), taken(two, 20))
        assert len(one.queues) == len(two.queues) == 2
    assert [sorted(numbers(found)) for found in both] == [list(range(20))] * 2
    assert len(list(tmp_path.rglob("offsets.json"))) == 2  # noqa: ASYNC240
    await send(servers, topic, numbered(25, since=20))
    async with member("one") as again:
        assert sorted(numbers(await taken(again, 5))) == list(range(20, 25))


async def test_a_broadcast_message_that_fails_is_passed_over_with_a_line_in_the_log(
    servers: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    topic = servers.topic("broadcast-fails")
    await make(servers, topic, 1)
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
        await until(lambda: len(got) == 3, "three")
    assert "are not retried" in caplog.text


async def test_an_administrator_moves_a_group_while_it_consumes(servers: Servers):
    topic = servers.topic("reset")
    await make(servers, topic, 2)
    await send(servers, topic, numbered(20))
    got: list[int] = []
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))

    async with consumer, reader(servers) as read:
        await until(lambda: len(got) >= 20, "all once")
        await consumer.commit()
        header = ResetOffsetRequestHeader(topic=topic, group=topic, timestamp=0, is_force=True)
        address = await address_of(read)
        await read.session.request_ok(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, timeout_ms=20_000)
        await until(lambda: len(got) >= 40, "all once more")
        await asyncio.sleep(0.2)
    assert sorted(got) == sorted(2 * list(range(20)))


KILLED = """
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


async def test_a_killed_consumer_loses_nothing_that_it_had_not_finished(servers: Servers):
    """One message is slow, all others are done and committed as far as can be; kill -9. The next member gets the slow one."""
    topic = servers.topic("killed")
    await make(servers, topic, 1)
    await send(servers, topic, numbered(100))
    process = subprocess.Popen(  # noqa: ASYNC220 — it is to be killed, not waited for
        [sys.executable, "-c", KILLED, servers.nameserver, topic], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        os.set_blocking(process.stdout.fileno(), False)
        done: list[int] = []
        deadline = time.monotonic() + WAIT_S_MAX
        while len(done) < 99 and time.monotonic() < deadline:
            done += map(int, (process.stdout.read() or b"").split())
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)  # some periods of committing
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert sorted([*done, 7]) == list(range(100))
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="last", consumer_limits=QUICK) as consumer:
        assert numbers(await taken(consumer, 93)) == list(range(7, 100))


async def test_a_crashed_member_is_missed_and_its_queues_are_taken_over(servers: Servers):
    topic = servers.topic("crashed")
    await make(servers, topic, 8)
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", KILLED, servers.nameserver, topic], stdout=subprocess.DEVNULL
        )
        try:
            await until(lambda: len(consumer.queues) == 4, "the other has its share")
        finally:
            process.kill()
            process.wait()
        await until(lambda: len(consumer.queues) == 8, "its queues are ours")
