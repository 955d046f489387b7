"""Orderly consumers: each queue is handled in order, under the broker's lock."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict

import pytest

from skyrocket.client import Consumer, Message, Producer, Received, RetryLater, Verdict
from skyrocket.client.consumer.locks import LockRequests
from tests.client.consumer_support import QUICK, make_topic, numbered, send
from tests.client.servers import Servers, reader, until


def orderly(servers: Servers, group: str, **options: object) -> Consumer:
    return Consumer(servers.nameserver, group=group, start="first", orderly=True, consumer_limits=QUICK, **options)


async def test_each_queue_is_handled_in_order_by_one_handler_at_a_time(servers: Servers):
    topic = servers.topic("ordered")
    await make_topic(servers, topic, 4)
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


async def test_failing_message_blocks_its_queue_until_it_is_handled(servers: Servers):
    topic = servers.topic("suspended")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(5))
    consumer = orderly(servers, topic)
    got: list[tuple[bytes, int]] = []

    @consumer.on(topic)
    def handle(message: Received) -> None:
        got.append((message.body, message.reconsume_times))
        if message.body == b"2" and message.reconsume_times < 2:
            raise RetryLater(suspend_ms=20)

    async with consumer:
        await until(lambda: len(got) >= 7, "all messages")
    assert got == [(b"0", 0), (b"1", 0), (b"2", 0), (b"2", 1), (b"2", 2), (b"3", 0), (b"4", 0)]


async def test_message_becomes_a_dead_letter_after_retries_max_and_the_queue_continues(servers: Servers):
    topic = servers.topic("exhausted")
    await make_topic(servers, topic, 1)
    await send(servers, topic, [b"poison", b"good"])
    consumer = orderly(servers, topic, retries_max=1)
    got: list[bytes] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(message.body)
        if message.body == b"poison":
            raise ValueError("poison")

    async with consumer, reader(servers) as read:
        (dead,) = await read.at_least(f"%DLQ%{topic}", 1)
        await until(lambda: b"good" in got, "the queue continues")
    assert got == [b"poison", b"poison", b"good"]
    assert dead.body == b"poison"
    assert dead.properties["RETRY_TOPIC"] == topic


async def test_handler_commits_and_rolls_back(servers: Servers):
    topic = servers.topic("manual-commit")
    await make_topic(servers, topic, 1)
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
        await until(lambda: len(got) >= 8, "all messages")
    assert got == [0, 1, 2, 3, 4, 3, 4, 5]
    again = orderly(servers, topic)
    after: list[int] = []

    @again.on(topic)
    async def handle_again(message: Received) -> None:
        after.append(int(message.body))

    async with again:
        await until(lambda: len(after) >= 3, "the uncommitted messages")
    assert after == [3, 4, 5]


async def test_queue_is_removed_while_another_client_holds_its_lock(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("lost")
    await make_topic(servers, topic, 1)
    consumer = orderly(servers, topic)
    got: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(int(message.body))

    async with consumer, reader(servers) as read:
        (queue,) = consumer.queues
        await send(servers, topic, numbered(3))
        await until(lambda: len(got) == 3, "three messages")
        await consumer._require_engine().locks.unlock([queue])
        await read.session.route(topic)
        other_client = LockRequests(read.session, topic)
        assert await other_client.lock([queue]) == ({queue}, set())
        await until(lambda: "Another client has locked" in caplog.text, "the lost lock is noticed")
        assert consumer.queues == []
        await send(servers, topic, numbered(6, since=3))
        await asyncio.sleep(0.3)
        assert got == [0, 1, 2], "a queue that another client has locked is not handled"
        await other_client.unlock([queue])
        await until(lambda: len(got) == 6, "the queue is assigned again")
    assert got == list(range(6))


async def test_order_holds_while_members_join_and_leave(servers: Servers):
    topic = servers.topic("moving")
    await make_topic(servers, topic, 4)
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
        await until(lambda: sum(map(len, got.values())) > 50, "some messages")
        async with member() as two:
            await until(lambda: len(one.queues) == len(two.queues) == 2, "two queues each")
            await until(lambda: sum(map(len, got.values())) > 150, "more messages")
        await producing
        await until(lambda: sum(map(len, got.values())) >= 400, "all messages")
    assert sorted(number for numbers in got.values() for number in numbers) == list(range(400))
    assert all(numbers == sorted(numbers) for numbers in got.values())
