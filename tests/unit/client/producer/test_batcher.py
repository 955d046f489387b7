"""Automatic batches: which messages share one, and that one message's error does not affect others."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.errors import BrokerError, InvalidMessageError
from skyrocket.client.message import Message, properties_without_id
from skyrocket.client.producer.batcher import ENTRY_BYTES, Batcher, BatchKey
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, SendStatus
from skyrocket.client.session.in_flight_limit import InFlightLimit

QUEUE = Queue("orders", "broker-a", 1)


class Broker:
    """Accepts batches and keeps them."""

    def __init__(self, error: BrokerError | None = None) -> None:
        self.batches: list[tuple[BatchKey, list[bytes]]] = []
        self.in_flight = InFlightLimit(100, 10_000)
        self._error = error

    async def deliver(self, key: BatchKey, messages: list[Message], properties: list[str]) -> tuple[Receipt, list[str]]:
        assert properties == [properties_without_id(message) for message in messages]
        self.batches.append((key, [message.body for message in messages]))
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        places = ",".join([f"AT{number}" for number in range(len(messages))])
        return Receipt(SendStatus.OK, "ALL", places, QUEUE, 40), [f"ID{number}" for number in range(len(messages))]

    def batcher(self, linger_ms: float = 1_000, bytes_max: int = 2_000, messages_max: int = 10) -> Batcher:
        return Batcher(self.deliver, self.in_flight, linger_ms, bytes_max, messages_max, 1_000)


def add(batcher: Batcher, message: Message) -> asyncio.Future[Receipt]:
    future = batcher.try_add(message)
    assert future is not None
    return future


async def test_each_message_gets_its_receipt_and_frees_the_in_flight_limit():
    broker = Broker()
    batcher = broker.batcher()
    futures = [add(batcher, Message("orders", b"%d" % number)) for number in range(3)]
    assert broker.in_flight.count == 3
    await batcher.drain()
    found = [(future.result().message_id, future.result().offset_id, future.result().queue_offset) for future in futures]
    assert found == [("ID0", "AT0", 40), ("ID1", "AT1", 41), ("ID2", "AT2", 42)]
    assert broker.batches == [(BatchKey("orders"), [b"0", b"1", b"2"])]
    assert (broker.in_flight.count, broker.in_flight.size_bytes) == (0, 0)


async def test_only_messages_with_equal_topic_queue_and_wait_share_a_batch():
    broker = Broker()
    batcher = broker.batcher()
    for message in (
        Message("orders", b"a"),
        Message("others", b"b"),
        Message("orders", b"c", wait_until_stored=False),
        Message("orders", b"d", keys="k"),
    ):
        add(batcher, message)
    await batcher.add(Message("orders", b"e"), QUEUE)
    await batcher.add(Message("orders", b"f"), None)
    await batcher.drain()
    assert broker.batches == [
        (BatchKey("orders"), [b"a", b"d", b"f"]),
        (BatchKey("others"), [b"b"]),
        (BatchKey("orders", None, False), [b"c"]),
        (BatchKey("orders", QUEUE), [b"e"]),
    ]


async def test_invalid_message_is_refused_alone():
    broker = Broker()
    batcher = broker.batcher()
    neighbour = add(batcher, Message("orders", b"a"))
    with pytest.raises(InvalidMessageError, match="properties"):
        batcher.try_add(Message("orders", b"b", properties={"long": "x" * 40_000}))
    await batcher.drain()
    assert neighbour.result().message_id == "ID0"
    assert broker.in_flight.count == 0


async def test_large_delayed_sharded_and_excess_messages_are_not_added():
    batcher = Broker().batcher()
    for message in (
        Message("orders", b"x" * 1_001),
        Message("orders", b"b", delay_level=1),
        Message("orders", b"b", sharding_key="k"),
    ):
        assert batcher.try_add(message) is None
    full = Broker()
    full.in_flight.try_acquire(10_000)
    assert full.batcher().try_add(Message("orders", b"b")) is None


async def test_refusal_reaches_every_message_that_is_not_cancelled():
    broker = Broker(BrokerError(1, "no", "a:1"))
    batcher = broker.batcher()
    one, other = (add(batcher, Message("orders", b"a")) for _ in range(2))
    other.cancel()
    await batcher.drain()
    assert isinstance(one.exception(), BrokerError)
    assert other.cancelled()
    assert broker.in_flight.count == 0


async def test_full_batch_is_sent_with_the_message_that_filled_it():
    broker = Broker()
    batcher = broker.batcher(messages_max=3)
    futures = [add(batcher, Message("orders", b"%d" % number)) for number in range(7)]
    await asyncio.gather(*futures[:6])
    assert [bodies for _, bodies in broker.batches] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    await batcher.drain()
    assert [future.result().message_id for future in futures] == ["ID0", "ID1", "ID2", "ID0", "ID1", "ID2", "ID0"]


@pytest.mark.parametrize(("spare_bytes", "sizes"), [(-1, [1, 1, 1, 1]), (0, [2, 2]), (1, [2, 2]), (200, [3, 1])])
async def test_batch_uses_its_size_limit(spare_bytes: int, sizes: list[int]):
    broker, message = Broker(), Message("orders", b"x" * 100)
    message_bytes = len(message.body) + len(properties_without_id(message)) + ENTRY_BYTES
    batcher = broker.batcher(bytes_max=2 * message_bytes + spare_bytes)
    for _ in range(4):
        add(batcher, message)
    await batcher.drain()
    assert [len(bodies) for _, bodies in broker.batches] == sizes


async def test_message_after_a_flush_is_in_another_batch():
    broker = Broker()
    batcher = broker.batcher()
    for number in range(3):
        add(batcher, Message("orders", b"%d" % number))
        batcher.flush()
    await batcher.drain()
    assert [bodies for _, bodies in broker.batches] == [[b"0"], [b"1"], [b"2"]]
    assert broker.in_flight.count == 0


async def test_in_flight_limit_is_released_exactly_even_if_a_message_changes_meanwhile():
    broker, message = Broker(), Message("orders", b"a")
    batcher = broker.batcher()
    add(batcher, message)
    message.body = b"x" * 500
    await batcher.drain()
    assert (broker.in_flight.count, broker.in_flight.size_bytes) == (0, 0)


async def test_no_more_messages_are_added_than_the_in_flight_limit_allows():
    broker = Broker()
    broker.in_flight = InFlightLimit(5, 10_000)
    batcher = broker.batcher()
    taken = [batcher.try_add(Message("orders", b"a")) for _ in range(7)]
    assert [future is not None for future in taken] == [True] * 5 + [False] * 2
    await batcher.drain()
    assert batcher.try_add(Message("orders", b"a")) is not None
