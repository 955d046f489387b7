"""The push consumer, against our broker and Apache's."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import replace

import pytest

from skyrocket.client import (
    ClientClosedError,
    ConfigurationError,
    Consumer,
    Message,
    NoNameserverError,
    Producer,
    Received,
    RetryLater,
    sql,
)
from tests.client.consumer_support import QUICK, make_topic, numbered, send, take
from tests.client.servers import Servers, reader, until
from tests.support.waiting import WAIT_S_MAX

# --- async for


async def test_loop_gets_every_message_once_and_the_next_member_continues_after_them(servers: Servers):
    topic = servers.topic("loop")
    await make_topic(servers, topic, 8)
    await send(servers, topic, numbered(100))
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        first = await take(consumer, 60)
    async with Consumer(servers.nameserver, group=topic, topics=[topic], start="first", consumer_limits=QUICK) as consumer:
        rest = await take(consumer, 40)
    assert sorted(int(message.body) for message in first + rest) == list(range(100))
    assert {message.topic for message in first + rest} == {topic}


async def test_message_is_delivered_again_when_the_loop_raises(servers: Servers):
    topic = servers.topic("raises")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(3))

    async def consume_and_fail() -> None:
        async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            async for message in consumer:
                if message.body == b"1":
                    raise ValueError("handler error")

    with pytest.raises(ValueError, match="handler error"):
        await consume_and_fail()
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = await take(consumer, 2)
    assert sorted((message.body, message.reconsume_times, message.topic) for message in found) == [
        (b"1", 1, topic),
        (b"2", 0, topic),
    ]


async def test_cancelled_loop_leaves_its_message_unacknowledged_and_no_task_behind(servers: Servers):
    topic = servers.topic("cancelled")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(2))
    started = asyncio.Event()

    async def work() -> None:
        async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            async for _ in consumer:
                started.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.wait_for(started.wait(), WAIT_S_MAX)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = await take(consumer, 2)
    assert [(message.body, message.reconsume_times) for message in found] == [(b"0", 0), (b"1", 0)]


async def test_messages_returns_lists(servers: Servers):
    topic = servers.topic("lists")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(50))
    found: list[Received] = []
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        async with asyncio.timeout(WAIT_S_MAX):
            while len(found) < 50:
                batch = await consumer.messages(20)
                assert 0 < len(batch) <= 20
                found += batch
    assert [int(message.body) for message in found] == list(range(50))


# --- handlers


async def test_handlers_run_concurrently_in_the_loop_or_in_threads(servers: Servers):
    one, two = servers.topic("async"), servers.topic("plain")
    await make_topic(servers, one, 2)
    await make_topic(servers, two, 2)
    consumer = Consumer(servers.nameserver, group=one, start="first", concurrency=8, consumer_limits=QUICK)
    threads: set[str] = set()
    got: list[bytes] = []
    running = most = 0

    @consumer.on(one)
    async def handle_async(message: Received) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        got.append(message.body)

    @consumer.on(two)
    def handle_in_thread(message: Received) -> None:
        threads.add(threading.current_thread().name)
        got.append(message.body)

    await send(servers, one, numbered(40))
    await send(servers, two, numbered(40))
    async with consumer:
        await until(lambda: len(got) >= 80, "80 messages")
    assert Counter(got) == Counter(numbered(40) * 2)
    assert most > 2
    assert threads
    assert all(name.startswith(f"skyrocket-{one}") for name in threads)


async def test_handler_with_batch_gets_lists(servers: Servers):
    topic = servers.topic("batches")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(30))
    consumer = Consumer(servers.nameserver, group=topic, start="first", concurrency=1, consumer_limits=QUICK)
    sizes: list[int] = []

    @consumer.on(topic, batch=10)
    def handle(messages: list[Received]) -> None:
        sizes.append(len(messages))

    async with consumer:
        await until(lambda: sum(sizes) >= 30, "30 messages")
    assert sum(sizes) == 30
    assert max(sizes) == 10


async def test_failing_message_is_retried_and_then_becomes_a_dead_letter(servers: Servers):
    topic = servers.topic("dead")
    await make_topic(servers, topic, 1)
    await send(servers, topic, [b"poison", b"good"])
    consumer = Consumer(servers.nameserver, group=topic, start="first", retries_max=2, consumer_limits=QUICK)
    tries: list[int] = []
    good: list[bytes] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        if message.body == b"poison":
            tries.append(message.reconsume_times)
            raise ValueError("poison")
        good.append(message.body)

    async with consumer, reader(servers) as read:
        (dead,) = await read.at_least(f"%DLQ%{topic}", 1)
        await until(lambda: len(tries) >= 3, "three tries")
    assert tries == [0, 1, 2]
    assert good == [b"good"]
    assert dead.body == b"poison"


async def test_retry_later_chooses_the_delay_or_the_dead_letter_topic(servers: Servers):
    topic = servers.topic("verdicts")
    await make_topic(servers, topic, 1)
    await send(servers, topic, [b"again", b"never"])
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)
    again: list[int] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        if message.body == b"never":
            raise RetryLater("never retry", delay_level=-1)
        again.append(message.reconsume_times)
        if not message.reconsume_times:
            raise RetryLater(delay_level=1)

    async with consumer, reader(servers) as read:
        (dead,) = await read.at_least(f"%DLQ%{topic}", 1)
        await until(lambda: again == [0, 1], "a second try")
    assert dead.body == b"never"


async def test_slow_message_holds_back_only_the_commit_offset(servers: Servers):
    topic = servers.topic("slow")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(100))
    consumer = Consumer(servers.nameserver, group=topic, start="first", close_timeout_ms=100, consumer_limits=QUICK)
    got: set[bytes] = set()

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        if message.body == b"7":
            await asyncio.sleep(60)
        got.add(message.body)

    async with consumer:
        await until(lambda: len(got) == 99, "all but one")
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="last", consumer_limits=QUICK) as after:
        found = await take(after, 93)
    assert [int(message.body) for message in found] == list(range(7, 100))


# --- filters


async def test_tags_and_sql_select_messages(servers: Servers):
    topic = servers.topic("chosen")
    await make_topic(servers, topic, 2)
    async with Producer(servers.nameserver) as producer:
        for number in range(12):
            tag = ("web", "app", "tv")[number % 3]
            await producer.send(Message(topic, b"%d" % number, tag=tag, properties={"n": str(number)}))
    selections = {"tags": {topic: "web || app"}, "sql": {topic: sql("n > 5 AND TAGS = 'tv'")}}
    expected = {"tags": [0, 1, 3, 4, 6, 7, 9, 10], "sql": [8, 11]}
    for kind, topics in selections.items():
        async with Consumer(
            servers.nameserver, group=f"{topic}-{kind}", topics=topics, start="first", consumer_limits=QUICK
        ) as consumer:
            found = await take(consumer, len(expected[kind]))
        assert sorted(int(message.body) for message in found) == expected[kind], kind


# --- members


async def test_two_members_share_the_queues_and_one_takes_over_when_the_other_leaves(servers: Servers):
    topic = servers.topic("shared")
    await make_topic(servers, topic, 8)
    got: dict[str, list[bytes]] = {"one": [], "two": []}

    def member(name: str) -> Consumer:
        consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)

        @consumer.on(topic)
        async def handle(message: Received) -> None:
            got[name].append(message.body)

        return consumer

    async with member("one") as one:
        await until(lambda: len(one.queues) == 8, "the first member has all queues")
        async with member("two") as two:
            await until(lambda: len(one.queues) == len(two.queues) == 4, "four queues each")
            assert not set(one.queues) & set(two.queues)
            await send(servers, topic, numbered(80))
            await until(lambda: len(got["one"]) + len(got["two"]) >= 80, "80 messages")
        await until(lambda: len(one.queues) == 8, "the first member has all queues again")
        await send(servers, topic, numbered(40))
        await until(lambda: len(got["one"]) + len(got["two"]) >= 120, "120 messages")
    assert Counter(got["one"] + got["two"]) == Counter(numbered(80) + numbered(40))
    assert got["one"]
    assert got["two"]


async def test_paused_consumer_gets_no_messages_until_resume(servers: Servers):
    topic = servers.topic("paused")
    await make_topic(servers, topic, 1)
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK)
    got: list[bytes] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        got.append(message.body)

    async with consumer:
        consumer.pause(topic)
        await send(servers, topic, numbered(5))
        await asyncio.sleep(0.5)
        assert got == []
        consumer.resume()
        await until(lambda: len(got) == 5, "five messages")


async def test_cache_limit_stops_pulling_until_there_is_room(servers: Servers):
    topic = servers.topic("full")
    await make_topic(servers, topic, 1)
    await send(servers, topic, numbered(400))
    limits = replace(QUICK, cached_messages_max=50, when_full_ms=60_000)
    consumer = Consumer(servers.nameserver, group=topic, start="first", concurrency=2, consumer_limits=limits)
    may_continue = asyncio.Event()
    got: list[bytes] = []
    most = 0

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        nonlocal most
        await may_continue.wait()
        got.append(message.body)
        most = max(most, process_queue.cached_messages)

    async with consumer:
        process_queue = consumer._require_engine().assigned.by_queue[consumer.queues[0]].process_queue
        await until(lambda: process_queue.reached_limit() is not None, "the cache is full")
        await asyncio.sleep(0.3)
        most = process_queue.cached_messages
        may_continue.set()
        await until(lambda: len(got) == 400, "all messages")
    assert most <= 50 + QUICK.pull_messages


async def test_subscriptions_change_while_running_and_a_closed_consumer_starts_again(servers: Servers):
    one, two = servers.topic("first"), servers.topic("second")
    await make_topic(servers, one, 1)
    await make_topic(servers, two, 1)
    consumer = Consumer(servers.nameserver, group=one, topics=one, start="first", consumer_limits=QUICK)
    got: list[tuple[str, bytes]] = []

    @consumer.on()
    async def handle(message: Received) -> None:
        got.append((message.topic, message.body))

    async with consumer:
        consumer.subscribe(two)
        await until(lambda: {queue.topic for queue in consumer.queues} == {one, two}, "both topics")
        await send(servers, one, [b"1"])
        await send(servers, two, [b"2"])
        await until(lambda: len(got) == 2, "one message of each topic")
        consumer.unsubscribe(one)
        await until(lambda: {queue.topic for queue in consumer.queues} == {two}, "only the second topic")
    assert consumer.topics == [two]
    await send(servers, one, [b"3"])
    await send(servers, two, [b"4"])
    async with consumer:
        await until(lambda: len(got) == 3, "the last message")
    assert got == [(one, b"1"), (two, b"2"), (two, b"4")]


# --- errors


async def test_wrong_options_and_states_raise_typed_errors(servers: Servers):
    with pytest.raises(ConfigurationError, match="subscribes to no topic"):
        await Consumer(servers.nameserver, group="g").start()
    with pytest.raises(ConfigurationError, match="A start is 'first'"):
        Consumer(servers.nameserver, group="g", topics="t", start="yesterday")
    with pytest.raises(NoNameserverError):
        await Consumer("127.0.0.1:1", group="g", topics="t").start()
    with pytest.raises(ClientClosedError):
        await Consumer(servers.nameserver, group="g", topics="t").commit()


async def test_topic_that_is_created_later_is_consumed(servers: Servers, caplog: pytest.LogCaptureFixture):
    topic = servers.topic("later")
    async with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        assert "does not exist yet" in caplog.text
        await make_topic(servers, topic, 1)
        await send(servers, topic, numbered(3))
        found = await take(consumer, 3)
    assert [message.body for message in found] == numbered(3)
