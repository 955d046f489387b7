"""Orderly consumers: queue by queue, each in order, with the broker's locks."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from skyrocket.client import Consumer, Message, Producer, Received, RetryLater, Verdict
from skyrocket.client.consumer.locks import QueueLocks
from tests.client.consuming import QUICK, make, numbered, send
from tests.client.servers import Servers, reader, until


def orderly(servers: Servers, group: str, **options: object) -> Consumer:
    return Consumer(servers.nameserver, group=group, start="first", orderly=True, consumer_limits=QUICK, **options)


async def test_each_queue_is_handled_in_order_by_one_handler_at_a_time(servers: Servers):
    topic = servers.topic("ordered")
    await make(servers, topic, 4)
    async with Producer(servers.nameserver) as producer:
        for number in range(100):
            await producer.send(Message(topic, b"%d" % number, sharding_key=f"key-{number % 7}"))
    consumer = orderly(servers, topic)
    got: dict[str, list[int]] = defaultdict(list)
    busy: Counter[int] = Counter()

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        busy[message.queue_id] += 1
        assert busy[message.queue_id] == 1, "two handlers in one queue"
        await asyncio.sleep(0.001)
        busy[message.queue_id] -= 1
        got[message.sharding_key].append(int(message.body))

    async with consumer:
        await until(lambda: sum(map(len, got.values())) >= 100, "100 messages")
    assert got == {f"key-{key}": list(range(key, 100, 7)) for key in range(7)}


async def test_a_failing_message_holds_its_queue_and_comes_again_in_its_place(servers: Servers):
    topic = servers.topic("suspended")
    await make(servers, topic, 1)
    await send(servers, topic, numbered(5))
    consumer = orderly(servers, topic)
    got: list[tuple[bytes, int]] = []

    @consumer.on(topic)
    def handle(message: Received) -> None:
        got.append((message.body, message.reconsume_times))
        if message.body == b"2" and message.reconsume_times < 2:
            raise RetryLater(suspend_ms=20)

    async with consumer:
        await until(lambda: len(got) >= 7, "all of it")
    assert got == [(b"0", 0), (b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0), (b"4", 0)]


async def test_after_so_many_failures_it_is_a_dead_letter_and_the_queue_goes_on(servers: Servers):
    topic = servers.topic("given-up")
    await make(servers, topic, 1)
    await send(servers, topic, [b"poison", b"good"])
    consumer = orderly(servers, topic, retries_max=1)
    got: list[bytes] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(message.body)
        if message.body == b"poison":
            raise ValueError("it is poison")

    async with consumer, reader(servers) as read:
        (dead,) = await read.at_least(f"%DLQ%{topic}", 1)
        await until(lambda: b"good" in got, "the queue goes on")
    assert got == [b"poison", b"poison", b"good"]
    assert dead.body == b"poison"
    assert dead.properties["RETRY_TOPIC"] == topic


async def test_a_handler_may_commit_and_roll_back_by_hand(servers: Servers):
    topic = servers.topic("by-hand")
    await make(servers, topic, 1)
    await send(servers, topic, numbered(6))
    consumer = orderly(servers, topic, auto_commit=False)
    got: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> Verdict:
        number = int(message.body)
        got.append(number)
        if number == 2:
            return Verdict.COMMIT
        if number == 4 and got.count(4) == 1:
            return Verdict.ROLLBACK
        return Verdict.DONE

    async with consumer:
        await until(lambda: len(got) >= 8, "all of it")
    assert got == [0, 1, 2, 3, 4, 3, 4, 5]
    again = orderly(servers, topic)
    after: list[int] = []

    @again.on(topic)
    async def handle_again(message: Received) -> None:
        after.append(int(message.body))

    async with again:
        await until(lambda: len(after) >= 3, "what was not committed")
    assert after == [3, 4, 5]


async def test_a_lock_that_another_has_ends_the_queue_here_and_is_won_back(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("lost")
    await make(servers, topic, 1)
    consumer = orderly(servers, topic)
    got: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))

    async with consumer, reader(servers) as read:
        (queue,) = consumer.queues
        await send(servers, topic, numbered(3))
        await until(lambda: len(got) == 3, "three messages")
        await consumer._running().locks.unlock([queue])
        await read.session.route(topic)
        stranger = QueueLocks(read.session, topic)
        assert await stranger.lock([queue]) == ({queue}, set())
        await until(lambda: "is another's now" in caplog.text, "the loss is noticed")
        assert consumer.queues == []
        await send(servers, topic, numbered(6, since=3))
        await asyncio.sleep(0.3)
        assert got == [0, 1, 2], "what another has locked is not handled"
        await stranger.unlock([queue])
        await until(lambda: len(got) == 6, "the queue is ours again")
    assert got == list(range(6))


async def test_order_holds_while_members_come_and_go(servers: Servers):
    topic = servers.topic("moving")
    await make(servers, topic, 4)
    got: dict[int, list[int]] = defaultdict(list)
    busy: Counter[int] = Counter()

    def member() -> Consumer:
        consumer = orderly(servers, topic)

        @consumer.on(topic)
        async def handle(message: Received) -> None:
            busy[message.queue_id] += 1
            assert busy[message.queue_id] == 1, "two members in one queue"
            await asyncio.sleep(0.002)
            got[message.queue_id].append(int(message.body))
            busy[message.queue_id] -= 1

        return consumer

    async def produce() -> None:
        async with Producer(servers.nameserver) as producer:
            for number in range(400):
                await producer.send(Message(topic, b"%d" % number, sharding_key=str(number % 4)))
                await asyncio.sleep(0.002)

    async with member() as one:
        producing = asyncio.create_task(produce())
        await until(lambda: sum(map(len, got.values())) > 50, "some")
        async with member() as two:
            await until(lambda: len(one.queues) == len(two.queues) == 2, "two each")
            await until(lambda: sum(map(len, got.values())) > 150, "some more")
        await producing
        await until(lambda: sum(map(len, got.values())) >= 400, "all")
    assert sorted(number for numbers in got.values() for number in numbers) == list(range(400))
    assert all(numbers == sorted(numbers) for numbers in got.values())
