"""The pull consumer, against our broker and Apache's."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from skyrocket.client import ClientClosedError, ConfigurationError, Message, NoRouteError, Producer, PullConsumer, Queue, Received
from tests.client.consumer_support import QUICK, make_topic, numbered, numbers, send
from tests.client.servers import Servers, until
from tests.support.waiting import WAIT_S_MAX


async def poll_all(consumer: PullConsumer, count: int) -> list[Received]:
    found: list[Received] = []
    async with asyncio.timeout(WAIT_S_MAX):
        while len(found) < count:
            found += await consumer.poll(200)
    return found


async def test_seek_sets_the_position_in_an_assigned_queue(servers: Servers):
    topic = servers.topic("seek")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(50))
    async with PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK) as consumer:
        (queue,) = await consumer.queues(topic)
        await consumer.assign([queue])
        assert consumer.assignment == [queue]
        assert numbers(await poll_all(consumer, 50)) == list(range(50))
        assert consumer.position(queue) == 50
        await consumer.seek(queue, 45)
        assert numbers(await poll_all(consumer, 5)) == [45, 46, 47, 48, 49]
        await consumer.seek_to_begin(queue)
        assert numbers(await consumer.poll(5_000, most=3)) == [0, 1, 2]
        await consumer.seek_to_end(queue)
        assert await consumer.poll(100) == []
        assert (await consumer.begin_offset(queue), await consumer.end_offset(queue)) == (0, 50)


async def test_without_auto_commit_only_commit_commits(servers: Servers):
    topic = servers.topic("manual")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(10))
    async with PullConsumer(servers.nameserver, group=topic, start="first", auto_commit=False, consumer_limits=QUICK) as consumer:
        (queue,) = await consumer.queues(topic)
        await consumer.assign([queue])
        assert numbers(await poll_all(consumer, 10)) == list(range(10))
        await asyncio.sleep(0.5)  # several commit periods
    async with PullConsumer(servers.nameserver, group=topic, start="first", auto_commit=False, consumer_limits=QUICK) as consumer:
        await consumer.assign([queue])
        assert numbers(await consumer.poll(10_000, most=4)) == [0, 1, 2, 3]
        await consumer.commit()
        assert await consumer.committed(queue) == 4
        await consumer.commit({queue: 7})
        assert await consumer.committed(queue) == 7


async def test_auto_commit_commits_what_the_last_poll_returned(servers: Servers):
    topic = servers.topic("auto")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(10))
    with pytest.raises(ValueError, match="caller error"):
        await _poll_and_fail(servers, topic)
    async with PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK) as consumer:
        (queue,) = await consumer.queues(topic)
        assert await consumer.committed(queue) == 3


async def _poll_and_fail(servers: Servers, topic: str) -> None:
    async with PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK) as consumer:
        await consumer.assign(await consumer.queues(topic))
        assert numbers(await consumer.poll(10_000, most=3)) == [0, 1, 2]
        assert numbers(await consumer.poll(10_000, most=3)) == [3, 4, 5]
        raise ValueError("caller error")


async def test_subscribers_share_the_queues_and_paused_queues_return_nothing(servers: Servers):
    topic = servers.topic("subscribed")
    await make_topic(servers, topic, 4)
    async with (
        PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK) as one,
        PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK) as two,
    ):
        await one.subscribe(topic)
        await two.subscribe({topic: "*"})
        await until(lambda: len(one.assignment) == len(two.assignment) == 2, "two queues each")
        assert not set(one.assignment) & set(two.assignment)
        one.pause(one.assignment)
        async with Producer(servers.nameserver) as producer:
            for queue in one.assignment:
                await producer.send(Message(topic, b"1"), queue=queue)
            for queue in two.assignment:
                await producer.send(Message(topic, b"2"), queue=queue)
        assert numbers(await poll_all(two, 2)) == [2, 2]
        assert await one.poll(300) == []
        one.resume(one.assignment)
        assert numbers(await poll_all(one, 2)) == [1, 1]
        with pytest.raises(ConfigurationError, match="cannot follow `subscribe`"):
            await one.assign([])


async def test_shared_cache_limit_bounds_what_is_fetched_ahead(servers: Servers):
    topic = servers.topic("ahead")
    await make_topic(servers, topic, 8)
    await send(servers, topic, numbered(400))
    limits = replace(QUICK, all_messages_max=80, pull_messages=5)
    async with PullConsumer(servers.nameserver, group=topic, start="first", consumer_limits=limits) as consumer:
        queues = await consumer.queues(topic)

        def cached() -> list[int]:
            return [each.process_queue.cached_messages for each in consumer._assigned.by_queue.values()]

        await consumer.assign(queues)
        await until(lambda: all(count > 10 for count in cached()), "each queue has its share of 10")
        assert max(cached()) <= 10 + 5, "a pull under way may exceed the limit"
        await consumer.assign(queues[:2])
        await until(lambda: all(count > 40 for count in cached()), "the two queues have 40 each")
        found = await poll_all(consumer, 100)
    assert len(found) == 100


async def test_seek_to_time_continues_at_the_first_message_since_then(servers: Servers):
    topic = servers.topic("timed")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(3))
    await asyncio.sleep(0.05)
    middle_ms = time.time_ns() // 1_000_000
    await asyncio.sleep(0.05)
    await send(servers, topic, numbered(6, since=3))
    async with PullConsumer(servers.nameserver, group=topic, consumer_limits=QUICK) as consumer:
        (queue,) = await consumer.queues(topic)
        await consumer.assign([queue])
        await consumer.seek_to_begin(queue)
        await poll_all(consumer, 6)  # Apache's broker has dispatched all messages, too
        assert await consumer.offset_for_time(queue, middle_ms) == 3
        await consumer.seek_to_time(queue, middle_ms)
        assert numbers(await poll_all(consumer, 3)) == [3, 4, 5]


async def test_wrong_calls_raise_typed_errors(servers: Servers):
    consumer = PullConsumer(servers.nameserver, group="g")
    with pytest.raises(ClientClosedError):
        await consumer.poll()
    async with consumer:
        with pytest.raises(NoRouteError, match="Topic 'nowhere' does not exist"):
            await consumer.queues("nowhere")
        with pytest.raises(ConfigurationError, match="no assignment for queue 0 of t"):
            await consumer.seek(Queue("t", "b", 0), 0)
        assert await consumer.poll(10) == []
