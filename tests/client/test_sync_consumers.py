"""The consumers of `skyrocket.client.sync`, used from threads."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

from skyrocket.client import ConfigurationError
from skyrocket.client.sync import Consumer, Message, Producer, PullConsumer, Received
from tests.client.consumer_support import QUICK, make_topic, numbered, numbers
from tests.client.servers import Servers
from tests.support.waiting import WAIT_S_MAX, wait_until


def make_filled_topic(servers: Servers, what: str, count: int) -> str:
    topic = servers.topic(what)
    asyncio.run(make_topic(servers, topic, 1))
    with Producer(servers.nameserver) as producer:
        for body in numbered(count):
            producer.send(Message(topic, body))
    return topic


def consume_until(consumer: Consumer, body: bytes) -> list[Received]:
    found = []
    for message in consumer:
        found.append(message)
        if message.body == body:
            break
    return found


def test_for_loop_gets_messages_and_the_next_consumer_continues(servers: Servers):
    topic = make_filled_topic(servers, "sync-loop", 100)
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        first = list(itertools.islice(consumer, 60))
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        rest = consume_until(consumer, b"99")
        consumer.commit()
    assert numbers(first) == list(range(60))
    assert numbers(rest) == list(range(100 - len(rest), 100))
    if servers.name == "apache":  # a commit with a pull may arrive there after the last commit
        assert 40 <= len(rest) < 100
    else:
        assert len(rest) == 40, "it continues where the first consumer ended"


def test_message_is_delivered_again_when_the_loop_raises(servers: Servers):
    topic = make_filled_topic(servers, "sync-raises", 3)

    def fail() -> None:
        with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
            for message in consumer:
                if message.body == b"1":
                    raise ValueError("caller error")

    with pytest.raises(ValueError, match="caller error"):
        fail()
    with Consumer(servers.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        found = list(itertools.islice(consumer, 2))
    assert sorted((message.body, message.reconsume_times) for message in found) == [(b"1", 1), (b"2", 0)]


def test_handlers_run_in_threads_until_stopped(servers: Servers):
    topic = make_filled_topic(servers, "sync-handlers", 50)
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
    wait_until(lambda: len(got) >= 50, "50 messages are consumed")
    consumer.stop()
    runner.join(WAIT_S_MAX)
    assert not runner.is_alive()
    assert sorted(got) == list(range(50))


def test_pull_consumer_seeks_polls_and_commits(servers: Servers):
    topic = make_filled_topic(servers, "sync-pull", 20)
    with PullConsumer(servers.nameserver, group=topic, start="first", auto_commit=False, consumer_limits=QUICK) as consumer:
        (queue,) = consumer.queues(topic)
        consumer.assign([queue])
        consumer.seek(queue, 15)
        assert numbers(itertools.islice(consumer, 5)) == [15, 16, 17, 18, 19]
        consumer.commit()
        assert (consumer.committed(queue), consumer.begin_offset(queue), consumer.end_offset(queue)) == (20, 0, 20)
