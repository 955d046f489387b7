"""RocketMQ's message trace, written and read by our client, on our broker and on Apache's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from skyrocket.client import Admin, Consumer, Message, NoRouteError, Outcome, Producer, Received, RetryLater, TransactionProducer
from skyrocket.client.admin import TraceStep
from skyrocket.protocol.message.trace import TracedKind, TraceType
from skyrocket.protocol.system_names import TRACE_TOPIC
from tests.client.consumer_support import QUICK, make_topic
from tests.client.servers import Servers, our_servers, until
from tests.support.waiting import WAIT_S_MAX


async def steps_of(servers: Servers, message: str, count: int, topic: str = TRACE_TOPIC) -> list[TraceStep]:
    """Wait for so many rows about a message, or a key: brokers index a message a little later."""
    found: list[TraceStep] = []
    async with Admin(servers.nameserver) as admin, asyncio.timeout(WAIT_S_MAX):
        while len(found) < count:
            try:
                found = await admin.messages.trace(message, topic=topic)
            except NoRouteError:  # the first trace creates the topic
                found = []
            await asyncio.sleep(0.05)
    assert len(found) == count
    return found


async def test_a_send_is_traced_as_javas_client_does(servers: Servers):
    topic = servers.topic("traced")
    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver, group=topic, trace=True) as producer:
        receipt = await producer.send(Message(topic, b"hello", tag="web", keys=[f"k-{topic}", "second"]))
    for found_by in (receipt.message_id, f"k-{topic}"):
        (step,) = await steps_of(servers, found_by, 1)
        row = step.row
        assert (row.type, row.group, row.topic, row.message_id) == (TraceType.PUB, topic, topic, receipt.message_id)
        assert (row.tags, row.keys, row.body_bytes, row.kind) == ("web", f"k-{topic} second", 5, TracedKind.NORMAL)
        assert (row.region_id, row.offset_id, row.success) == ("DefaultRegion", receipt.offset_id, True)
        assert step.client_host.startswith(row.store_host.rpartition(":")[0])  # both on loopback


async def test_batches_delays_and_automatic_batches_are_traced(servers: Servers):
    topic = servers.topic("traced-kinds")
    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver, group=topic, trace=True) as producer:
        delayed = await producer.send(Message(topic, b"later", delay_level=1))
        batch = await producer.send_batch([Message(topic, b"a"), Message(topic, b"bc")])
    async with Producer(servers.nameserver, group=topic, trace=True, linger_ms=1) as producer:
        soon = await asyncio.gather(*(producer.send_soon(Message(topic, b"x")) for _ in range(3)))
    (step,) = await steps_of(servers, delayed.message_id, 1)
    assert step.row.kind == TracedKind.DELAYED
    for message_id, size in zip(batch.message_id.split(","), (1, 2), strict=True):
        (step,) = await steps_of(servers, message_id, 1)
        assert step.row.body_bytes == size
    for receipt in soon:
        await steps_of(servers, receipt.message_id, 1)


async def test_consumptions_are_traced_with_their_results(servers: Servers):
    topic = servers.topic("traced-consumer")
    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver) as producer:
        good = await producer.send(Message(topic, b"good", keys=["g"]))
        bad = await producer.send(Message(topic, b"bad"))
    consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK, trace=True)
    handled: list[bytes] = []

    @consumer.on(topic)
    def handle(message: Received) -> None:
        handled.append(message.body)
        if message.body == b"bad":
            raise RetryLater("not now", delay_level=18)

    running = asyncio.create_task(consumer.run(handle_signals=False))
    await until(lambda: len(handled) == 2, "both messages are handled")
    consumer.stop()
    await running
    before, after = (step.row for step in await steps_of(servers, good.message_id, 2))
    assert (before.type, after.type) == (TraceType.SUB_BEFORE, TraceType.SUB_AFTER)
    assert (before.group, before.retry_times, before.keys, before.region_id) == (topic, 0, "g", "DefaultRegion")
    assert (after.group, after.success, after.context_code) == (topic, True, 0)
    assert before.request_id == after.request_id
    _, failed = (step.row for step in await steps_of(servers, bad.message_id, 2))
    assert (failed.success, failed.context_code) == (False, 4)


async def test_both_ends_of_a_transaction_are_traced(servers: Servers):
    topic = servers.topic("traced-transaction")
    async with TransactionProducer(servers.nameserver, group=topic, check=lambda _: Outcome.COMMIT, trace=True) as producer:
        result = await producer.transaction(Message(topic, b"x", keys=["t"]), lambda _message, _id: Outcome.ROLLBACK)
    half, end = (step.row for step in await steps_of(servers, result.receipt.message_id, 2))
    assert (half.type, half.kind) == (TraceType.PUB, TracedKind.HALF)
    assert (end.type, end.transaction_state, end.from_check) == (TraceType.END_TRANSACTION, "ROLLBACK_MESSAGE", False)
    assert (end.topic, end.keys, end.kind) == (topic, "t", TracedKind.TRANSACTION_END)


async def test_a_recall_is_traced(servers: Servers):
    topic = servers.topic("traced-recall")
    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver, group=topic, trace=True) as producer:
        receipt = await producer.send(Message(topic, b"x", deliver_in=timedelta(minutes=10)))
        if not receipt.recall_handle:
            pytest.skip("this broker does not give out recall handles")
        message_id = await producer.recall(topic, receipt.recall_handle)
    steps = await steps_of(servers, message_id, 2)
    assert {step.row.type for step in steps} == {TraceType.PUB, TraceType.RECALL}


async def test_traces_go_to_a_topic_of_ones_own(ours: Servers):
    topic, traces = ours.topic("traced-elsewhere"), ours.topic("my-traces")
    await make_topic(ours, topic, 1)
    async with Producer(ours.nameserver, group=topic, trace=traces) as producer:
        receipt = await producer.send(Message(topic, b"x"))
    await steps_of(ours, receipt.message_id, 1, traces)


@pytest.fixture(scope="module")
def untraced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    home: Path = tmp_path_factory.mktemp("untraced")
    with our_servers(home, traceOn="false", traceTopicEnable="true") as servers:
        yield servers


async def test_nothing_is_traced_when_the_broker_says_so(untraced: Servers):
    topic = untraced.topic("untraced")
    await make_topic(untraced, topic, 1)
    consumer = Consumer(untraced.nameserver, group=topic, start="first", consumer_limits=QUICK, trace=True)
    handled: list[bytes] = []

    @consumer.on(topic)
    async def handle(message: Received) -> None:
        handled.append(message.body)

    async with Producer(untraced.nameserver, group=topic, trace=True) as producer:
        receipt = await producer.send(Message(topic, b"x"))
        assert not receipt.is_trace_on
    running = asyncio.create_task(consumer.run(handle_signals=False))
    await until(lambda: bool(handled), "the message is handled")
    consumer.stop()
    await running
    async with Admin(untraced.nameserver) as admin:
        status = await admin.topics.status(TRACE_TOPIC)
    assert status.messages == 0
