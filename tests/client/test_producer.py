"""The producer, against our broker and Apache's."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from skyrocket.client import (
    BrokerError,
    ClientClosedError,
    InvalidMessageError,
    Message,
    NoNameserverError,
    Producer,
    Queue,
    Receipt,
    SendFailedError,
    SendStatus,
)
from skyrocket.protocol.message.message_id import decode_offset_id, parse_unique_id
from tests.client.servers import BROKER, Servers, reader


async def test_message_arrives_as_it_was_sent(servers: Servers):
    topic = servers.topic("plain")
    message = Message(topic, b"hello", tag="web", keys=["u-42", "o-1"], properties={"colour": "grün"}, flag=7)
    async with Producer(servers.nameserver, group="signup") as producer, reader(servers) as read:
        receipt = await producer.send(message)
        (found,) = await read.at_least(topic, 1)
    assert receipt.status is SendStatus.OK
    assert receipt.queue == found.queue == Queue(topic, found.broker_name, receipt.queue.queue_id)
    assert (receipt.message_id, receipt.offset_id) == (found.message_id, found.offset_id)
    assert receipt.queue_offset == found.queue_offset == 0
    parse_unique_id(receipt.message_id)
    decode_offset_id(receipt.offset_id)
    assert (found.body, found.tag, found.keys, found.flag) == (b"hello", "web", ["u-42", "o-1"], 7)
    assert found.properties["colour"] == "grün"


async def test_queues_are_used_in_turn(servers: Servers):
    topic = servers.topic("turns")
    async with Producer(servers.nameserver) as producer:
        queues = await producer.queues(topic)
        receipts = [await producer.send(Message(topic, b"m")) for _ in range(2 * len(queues))]
    assert Counter(receipt.queue for receipt in receipts) == dict.fromkeys(queues, 2)


async def test_messages_with_one_sharding_key_stay_in_one_queue_and_in_order(servers: Servers):
    topic = servers.topic("sharded")
    async with Producer(servers.nameserver) as producer, reader(servers) as read:
        for number in range(30):
            await producer.send(Message(topic, b"%d" % number, sharding_key=f"key-{number % 3}"))
        found = await read.at_least(topic, 30)
    for key in ("key-0", "key-1", "key-2"):
        of_key = [message for message in found if message.sharding_key == key]
        assert len({message.queue for message in of_key}) == 1
        assert [int(message.body) for message in of_key] == sorted(int(message.body) for message in of_key)


async def test_queue_and_selector_determine_the_queue(servers: Servers):
    topic = servers.topic("chosen")
    async with Producer(servers.nameserver) as producer:
        queues = await producer.queues(topic)
        here = await producer.send(Message(topic, b"m"), queue=queues[2])
        there = await producer.send(Message(topic, b"m", tag="3"), selector=lambda each, message: each[int(message.tag)])
    assert (here.queue, there.queue) == (queues[2], queues[3])


async def test_batch_is_stored_in_one_queue_in_order(servers: Servers):
    topic = servers.topic("batch")
    async with Producer(servers.nameserver) as producer, reader(servers) as read:
        receipt = await producer.send_batch([Message(topic, b"%d" % number, tag=f"t{number}") for number in range(5)])
        found = await read.at_least(topic, 5)
    assert [(message.body, message.tag, message.queue_offset) for message in found] == [
        (b"%d" % number, f"t{number}", number) for number in range(5)
    ]
    assert receipt.message_id.split(",") == [message.message_id for message in found]
    assert receipt.offset_id.split(",") == [message.offset_id for message in found]
    with pytest.raises(ClientClosedError):
        await producer.send_batch([Message(topic, b"m")])


async def test_automatic_batches_give_each_message_its_receipt(servers: Servers):
    topic = servers.topic("lingering")
    async with Producer(servers.nameserver, linger_ms=5) as producer, reader(servers) as read:
        receipts = await asyncio.gather(*(producer.send(Message(topic, b"%d" % number)) for number in range(200)))
        found = {message.message_id: message for message in await read.at_least(topic, 200)}
    assert len(found) == len(receipts) == 200
    for number, receipt in enumerate(receipts):
        message = found[receipt.message_id]
        assert (message.body, message.queue, message.queue_offset) == (b"%d" % number, receipt.queue, receipt.queue_offset)
        assert message.offset_id == receipt.offset_id


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
async def test_large_body_is_compressed(servers: Servers, kind: str):
    topic = servers.topic(kind)
    body = b"large enough " * 30_000
    async with Producer(servers.nameserver, compression=kind) as producer, reader(servers) as read:
        await producer.send(Message(topic, body))
        (found,) = await read.at_least(topic, 1)
    assert len(found.record.body) < len(body) // 10
    assert found.body == body


async def test_delayed_messages_are_not_delivered_at_once(servers: Servers):
    """The broker's tests cover the time of delivery. This one checks that delivery is not immediate and keeps the level."""
    topic = servers.topic("delayed")
    async with Producer(servers.nameserver) as producer, reader(servers) as read:
        await producer.send(Message(topic, b"by level", delay_level=1))
        timed = await producer.send(Message(topic, b"timed", deliver_in=timedelta(seconds=1)))
        assert timed.recall_handle
        await producer.send(Message(topic, b"at once"))
        assert b"at once" in {message.body for message in await read.at_least(topic, 1)}
        (by_level,) = [m for m in await read.at_least(topic, 3) if m.body == b"by level"]
    assert by_level.properties.get("DELAY") in (None, "1")


async def test_timed_message_can_be_recalled(servers: Servers):
    topic = servers.topic("recalled")
    async with Producer(servers.nameserver) as producer:
        receipt = await producer.send(Message(topic, b"never mind", deliver_in=timedelta(seconds=30)))
        assert await producer.recall(topic, receipt.recall_handle) == receipt.message_id
        with pytest.raises(InvalidMessageError, match="is not a recall handle"):
            await producer.recall(topic, "nonsense")


async def test_oneway_messages_arrive(servers: Servers):
    topic = servers.topic("oneway")
    async with Producer(servers.nameserver) as producer, reader(servers) as read:
        ids = [await producer.send_oneway(Message(topic, b"m")) for _ in range(20)]
        assert {message.message_id for message in await read.at_least(topic, 20)} == set(ids)


async def test_send_soon_returns_a_future_and_calls_back(servers: Servers):
    topic = servers.topic("soon")
    receipts: list[Receipt] = []
    async with Producer(servers.nameserver) as producer:
        futures = [producer.send_soon(Message(topic, b"m"), lambda done: receipts.append(done.result())) for _ in range(50)]
        await producer.flush()
        assert all(future.done() for future in futures)
    assert {receipt.message_id for receipt in receipts} == {future.result().message_id for future in futures}


async def test_close_sends_accepted_messages(servers: Servers):
    topic = servers.topic("closing")
    async with Producer(servers.nameserver, linger_ms=10_000) as producer:
        futures = [producer.send_soon(Message(topic, b"m")) for _ in range(10)]
        await asyncio.sleep(0)
    assert [future.result().status for future in futures] == [SendStatus.OK] * 10
    with pytest.raises(ClientClosedError):
        await producer.send(Message(topic, b"m"))


async def test_stamped_messages_have_consecutive_numbers_in_each_queue(servers: Servers):
    topic = servers.topic("stamped")
    async with Producer(servers.nameserver, stamp=True) as producer, reader(servers) as read:
        for _ in range(40):
            await producer.send(Message(topic, b"m"))
        await producer.send_batch([Message(topic, b"m")] * 10)
        found = await read.at_least(topic, 50)
    by_queue = Counter((message.queue, message.properties["SR_SEQ"]) for message in found)
    assert set(by_queue.values()) == {1}
    for queue in {message.queue for message in found}:
        numbers = [int(message.properties["SR_SEQ"]) for message in found if message.queue == queue]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len({message.properties["SR_PID"] for message in found}) == 1


async def test_namespace_is_added_to_the_topic_and_removed_from_receipts(servers: Servers):
    topic = servers.topic("spaced")
    async with Producer(servers.nameserver, namespace="shop") as producer, reader(servers) as read:
        receipt = await producer.send(Message(topic, b"m"))
        assert receipt.queue.topic == topic
        assert {queue.topic for queue in await producer.queues(topic)} == {topic}
        (found,) = await read.at_least(f"shop%{topic}", 1)
    assert found.properties["INSTANCE_ID"] == "shop"


async def test_producers_with_equal_options_share_a_session(servers: Servers):
    topic = servers.topic("shared")
    async with Producer(servers.nameserver, group="a") as one, Producer(servers.nameserver, group="b") as two:
        await asyncio.gather(*(producer.send(Message(topic, b"m")) for producer in (one, two) for _ in range(10)))
        assert one.client_id == two.client_id
        async with Producer(servers.nameserver, group="a", instance="apart") as three:
            assert three.client_id != one.client_id
    async with Producer(servers.nameserver, group="a") as again:
        await again.send(Message(topic, b"m"))


# --- errors


async def test_refusal_of_a_broker_has_its_reason(servers: Servers):
    async with Producer(servers.nameserver) as producer:
        with pytest.raises((BrokerError, SendFailedError)) as caught:
            await producer.send(Message(servers.topic("refused"), b"m"), queue=Queue("", BROKER, 99), timeout_ms=2_000)
    assert "99" in str(caught.value) or "queue" in str(caught.value).lower()


async def test_missing_nameserver_is_an_error_and_nothing_hangs():
    async with Producer("127.0.0.1:1") as producer:
        with pytest.raises(NoNameserverError, match=r"127\.0\.0\.1:1 cannot be reached"):
            await producer.send(Message("t", b"m"), timeout_ms=500)


async def test_cancelled_send_frees_the_in_flight_limit(servers: Servers):
    topic = servers.topic("cancelled")
    async with Producer(servers.nameserver) as producer:
        await producer.send(Message(topic, b"m"))
        task = producer.send_soon(Message(topic, b"m"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await producer.send(Message(topic, b"m"))
        assert producer._session.in_flight.count == 0


async def test_cancelled_message_of_a_batch_is_sent_and_frees_the_in_flight_limit(servers: Servers):
    topic = servers.topic("lingering")
    async with Producer(servers.nameserver, linger_ms=50) as producer, reader(servers) as read:
        kept, cancelled = producer.send_soon(Message(topic, b"kept")), producer.send_soon(Message(topic, b"cancelled"))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert (await kept).is_safe
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await producer.flush()
        assert (producer._session.in_flight.count, producer._session.in_flight.size_bytes) == (0, 0)
        assert {message.body for message in await read.at_least(topic, 2)} == {b"kept", b"cancelled"}, "the batch accepted it"


async def test_error_in_a_callback_does_not_affect_the_producer(servers: Servers):
    topic = servers.topic("raising")

    def bad(_: object) -> None:
        raise ValueError("in a callback")

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # keep the loop from logging it
    async with Producer(servers.nameserver) as producer:
        receipt = await producer.send_soon(Message(topic, b"m"), bad)
        assert receipt.is_safe
        await producer.send(Message(topic, b"m"))
