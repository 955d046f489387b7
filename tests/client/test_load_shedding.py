"""Consumers that skip messages when they are behind, and consumers with a rate limit."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from skyrocket.client import Consumer, PullConsumer, Received
from skyrocket.client import sync as sync_client
from skyrocket.client.consumer.dispatch.load_shedding import Skipped
from tests.client.consumer_support import QUICK, make_topic, numbered, numbers, send, take
from tests.client.servers import Servers, until
from tests.support.waiting import WAIT_S_MAX


async def committed(servers: Servers, group: str, topic: str) -> int:
    async with PullConsumer(servers.nameserver, group=group) as consumer:
        (queue,) = await consumer.queues(topic)
        return await consumer.committed(queue) or 0


async def test_messages_know_how_far_they_are_from_the_end_of_their_queue(servers: Servers):
    topic = servers.topic("behind")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(5))
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = await take(consumer, 5)
    assert [message.behind for message in found] == [4, 3, 2, 1, 0]


async def test_consumer_that_is_behind_skips_to_the_newest_messages_and_commits_the_others(servers: Servers):
    topic = servers.topic("skips")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(100))
    async with Consumer(
        servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK, skip_when_behind=9
    ) as consumer:
        found = await take(consumer, 10)
        skipped = consumer.skipped
    assert numbers(found) == list(range(90, 100))
    assert skipped == {topic: Skipped(when_behind=90)}
    assert await committed(servers, topic, topic) == 100


async def test_handlers_get_no_message_that_waited_too_long(servers: Servers):
    topic = servers.topic("waits")
    await make_topic(servers, topic, 1)
    consumer = Consumer(
        servers.nameserver,
        group=topic,
        start="first",
        consumer_limits=QUICK,
        concurrency=1,
        skip_older_than=timedelta(milliseconds=500),
    )
    handled: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        handled.append(int(message.body))
        while message.body == b"0" and time.time() * 1000 - message.stored_ms < 800:  # noqa: ASYNC110 — the others become too old
            await asyncio.sleep(0.05)

    running = asyncio.create_task(consumer.run(handle_signals=False))
    await until(lambda: bool(consumer._engine and consumer._engine.queues()), "the queue is assigned")
    await send(servers, topic, numbered(5))
    await until(lambda: consumer.skipped.get(topic, Skipped()).total == 4, "the others are skipped")
    await send(servers, topic, [b"9"])
    await until(lambda: 9 in handled, "the last message is handled")
    consumer.stop()
    await running
    assert handled == [0, 9]
    assert consumer.skipped == {topic: Skipped(too_old=4)}
    assert await committed(servers, topic, topic) == 6


async def test_rate_limit_spreads_messages_and_loses_none(servers: Servers):
    topic = servers.topic("rate")
    await make_topic(servers, topic, 4)
    await send(servers, topic, numbered(12))
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK, rate_limit=20)
    begun: list[float] = []

    @consumer.on(topic)
    async def handle(_message: Received) -> None:
        begun.append(time.monotonic())

    running = asyncio.create_task(consumer.run(handle_signals=False))
    await until(lambda: len(begun) == 12, "all messages are handled")
    consumer.stop()
    await running
    assert begun[-1] - begun[0] > 0.45  # ten of them at 20 a second; the first two may begin at once


async def test_rate_limit_holds_for_loops_too(servers: Servers):
    topic = servers.topic("rate-loop")
    await make_topic(servers, topic, 2)
    await send(servers, topic, numbered(8))
    async with Consumer(
        servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK, rate_limit=20
    ) as consumer:
        started = time.monotonic()
        found = await take(consumer, 8)
        passed_s = time.monotonic() - started
    assert sorted(numbers(found)) == list(range(8))
    assert passed_s > 0.25


async def test_orderly_consumer_keeps_its_order_behind_a_rate_limit(servers: Servers):
    topic = servers.topic("rate-orderly")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(6))
    async with Consumer(
        servers.nameserver, group=topic, topics=topic, start="first", orderly=True, consumer_limits=QUICK, rate_limit=50
    ) as consumer:
        assert numbers(await take(consumer, 6)) == list(range(6))


async def test_sync_consumer_skips_and_counts(servers: Servers):
    topic = servers.topic("sync-skips")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(20))

    def consume() -> tuple[list[int], object]:
        found: list[int] = []
        with sync_client.Consumer(
            servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK, skip_when_behind=4
        ) as consumer:
            for message in consumer:
                found.append(int(message.body))
                if len(found) == 5:
                    break
        return found, consumer.skipped

    async with asyncio.timeout(WAIT_S_MAX):
        found, skipped = await asyncio.to_thread(consume)
    assert found == [15, 16, 17, 18, 19]
    assert skipped == {topic: Skipped(when_behind=15)}
