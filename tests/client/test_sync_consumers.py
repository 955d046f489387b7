"""Consumers without await, from threads."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable

import pytest

from skyrocket.client import ConfigurationError
from skyrocket.client.sync import Consumer, Message, Producer, PullConsumer, Received
from tests.client.consuming import QUICK, make, numbered, numbers
from tests.client.servers import WAIT_S_MAX, Servers


def filled(servers: Servers, what: str, count: int) -> str:
    topic = servers.topic(what)
    asyncio.run(make(servers, topic, 1))
    with Producer(servers.nameserver) as producer:
        for body in numbered(count):
            producer.send(Message(topic, body))
    return topic


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def until_the_last(consumer: Consumer, body: bytes) -> list[Received]:
    found = []
    for message in consumer:
        found.append(message)
        if message.body == body:
            break
    return found


def test_a_loop_without_await(servers: Servers):
    topic = filled(servers, "sync-loop", 100)
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        first = list(itertools.islice(consumer, 60))
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        rest = until_the_last(consumer, b"99")
        consumer.commit()
    assert numbers(first) == list(range(60))
    assert numbers(rest) == list(range(100 - len(rest), 100))
    if servers.name == "apache":  # which may hear of a pull's commit after the last one
        assert 40 <= len(rest) < 100
    else:
        assert len(rest) == 40, "it goes on where the first ended"


def test_a_message_whose_body_raises_comes_again(servers: Servers):
    topic = filled(servers, "sync-raises", 3)

    def fail() -> None:
        with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            for message in consumer:
                if message.body == b"1":
                    raise ValueError("bad day")

    with pytest.raises(ValueError, match="bad day"):
        fail()
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = list(itertools.islice(consumer, 2))
    assert sorted((message.body, message.reconsume_times) for message in found) == [(b"1", 1), (b"2", 0)]


def test_handlers_run_in_threads_until_stopped(servers: Servers):
    topic = filled(servers, "sync-handlers", 50)
    consumer = Consumer(servers.nameserver, group=topic, start="first", concurrency=4, consumer_limits=QUICK)
    got: list[int] = []

    @consumer.on(topic)
    def handle(message: Received) -> None:
        assert threading.current_thread() is not runner
        got.append(int(message.body))

    with pytest.raises(ConfigurationError, match="a handler already"):
        consumer.on(topic)(handle)
    runner = threading.Thread(target=consumer.run)
    runner.start()
    until(lambda: len(got) >= 50)
    consumer.stop()
    runner.join(WAIT_S_MAX)
    assert not runner.is_alive()
    assert sorted(got) == list(range(50))


def test_seek_poll_and_commit(servers: Servers):
    topic = filled(servers, "sync-pull", 20)
    with PullConsumer(servers.nameserver, group=topic, start="first", auto_commit=False, consumer_limits=QUICK) as consumer:
        (queue,) = consumer.queues(topic)
        consumer.assign([queue])
        consumer.seek(queue, 15)
        assert numbers(itertools.islice(consumer, 5)) == [15, 16, 17, 18, 19]
        consumer.commit()
        assert (consumer.committed(queue), consumer.begin_offset(queue), consumer.end_offset(queue)) == (20, 0, 20)
