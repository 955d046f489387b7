"""The synchronous client: from threads, and across a fork."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skyrocket.client import ClientClosedError, ClientError, ConfigurationError
from skyrocket.client.sync import Message, Outcome, Producer, TransactionProducer
from tests.client.servers import Servers, reader
from tests.support.waiting import WAIT_S_MAX


def bodies(servers: Servers, topic: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        async with reader(servers) as reading:
            return sorted(message.body for message in await reading.at_least(topic, count))

    return asyncio.run(read())


def test_all_kinds_of_send(servers: Servers):
    topic = servers.topic("sync")
    with Producer(servers.nameserver, group="signup") as producer:
        queues = producer.queues(topic)
        receipt = producer.send(Message(topic, b"one", tag="web"), queue=queues[1])
        assert receipt.queue == queues[1]
        producer.send_batch([Message(topic, b"two"), Message(topic, b"three")])
        producer.send_oneway(Message(topic, b"four"))
        assert producer.send_soon(Message(topic, b"five")).result(30).is_safe
    assert bodies(servers, topic, 5) == [b"five", b"four", b"one", b"three", b"two"]


def test_threads_share_one_producer(servers: Servers):
    topic = servers.topic("threads")
    with Producer(servers.nameserver) as producer, ThreadPoolExecutor(16) as threads:
        receipts = list(threads.map(lambda number: producer.send(Message(topic, b"%03d" % number)), range(200)))
    assert len({receipt.message_id for receipt in receipts}) == 200
    assert bodies(servers, topic, 200) == [b"%03d" % number for number in range(200)]


def test_flush_sends_open_batches(servers: Servers):
    topic = servers.topic("soon")
    ids: list[str] = []
    with Producer(servers.nameserver, linger_ms=1_000) as producer:
        futures = [producer.send_soon(Message(topic, b"m"), lambda done: ids.append(done.result().message_id)) for _ in range(20)]
        producer.flush()
    assert sorted(ids) == sorted(future.result().message_id for future in futures)


def test_flush_waits_for_every_send_soon(servers: Servers):
    topic = servers.topic("flushed")
    with Producer(servers.nameserver) as producer:
        futures = [producer.send_soon(Message(topic, b"m")) for _ in range(500)]
        producer.flush()
        assert all(future.done() for future in futures)
        assert all(future.result().is_safe for future in futures)


def test_close_waits_for_every_send_soon(servers: Servers):
    topic = servers.topic("left")
    with Producer(servers.nameserver) as producer:
        futures = [producer.send_soon(Message(topic, b"m")) for _ in range(500)]
    assert all(future.result(0).is_safe for future in futures)


def test_errors_are_those_of_the_asyncio_client():
    with pytest.raises(ConfigurationError):
        Producer("nowhere")
    with Producer("127.0.0.1:1") as producer, pytest.raises(ClientError, match="No nameserver answers"):
        producer.send(Message("t", b"m"), timeout_ms=300)
    with pytest.raises(ClientClosedError):
        producer.send(Message("t", b"m"))


def test_send_from_a_callback_is_refused(ours: Servers):
    topic, caught = ours.topic("inside"), []
    with Producer(ours.nameserver) as producer:

        def callback(_: object) -> None:
            try:
                producer.send(Message(topic, b"m"))
            except ClientError as error:
                caught.append(str(error))

        producer.send_soon(Message(topic, b"m"), callback).result(30)
        producer.flush()
    assert "another thread" in caught[0]


def test_child_starts_a_new_client_after_a_fork_and_the_parent_goes_on(servers: Servers):
    topic = servers.topic("fork")
    with Producer(servers.nameserver) as producer:
        before = producer.send(Message(topic, b"parent before"))
        client_id = producer.client_id
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(60)
                receipt = producer.send(Message(topic, b"child"))
                fresh = producer.client_id != client_id and receipt.message_id[:20] != before.message_id[:20]
                producer.close()
                status = 0 if fresh else 2
            finally:
                os._exit(status)
        for number in range(20):
            producer.send(Message(topic, b"parent %02d" % number))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert producer.client_id == client_id
        producer.send(Message(topic, b"parent after"))
    found = bodies(servers, topic, 23)
    assert found == sorted([b"parent before", b"child", b"parent after", *[b"parent %02d" % number for number in range(20)]])


SCRIPT = """
import sys
from skyrocket.client.sync import Message, Producer
producer = Producer(sys.argv[1], linger_ms=5_000)
producer.send_soon(Message(sys.argv[2], b"at the end"))
"""


def test_end_of_the_process_sends_accepted_messages(ours: Servers):
    topic = ours.topic("script")
    subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT, ours.nameserver, topic], check=True, timeout=WAIT_S_MAX)
    assert bodies(ours, topic, 1) == [b"at the end"]


def test_transaction(servers: Servers):
    topic = servers.topic("sync")
    with TransactionProducer(servers.nameserver, group=topic, check=lambda _: Outcome.COMMIT) as producer:
        result = producer.transaction(Message(topic, b"m"), lambda message, transaction_id: Outcome.COMMIT)
        assert result.outcome is Outcome.COMMIT
    assert bodies(servers, topic, 1) == [b"m"]
