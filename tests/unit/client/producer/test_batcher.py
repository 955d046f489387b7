"""Automatic batches: who shares one, who does not, and that nobody suffers for another."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.errors import BrokerError, InvalidMessageError
from skyrocket.client.message import Message, properties_but_id
from skyrocket.client.producer.batcher import ENTRY_BYTES, Batching, BatchKey
from skyrocket.client.producer.in_flight_limit import Gate
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, SendStatus

QUEUE = Queue("orders", "broker-a", 1)


class Broker:
    """Takes batches, and remembers them."""

    def __init__(self, error: BrokerError | None = None) -> None:
        self.batches: list[tuple[BatchKey, list[bytes]]] = []
        self.gate = Gate(100, 10_000)
        self._error = error

    async def deliver(self, key: BatchKey, messages: list[Message], properties: list[str]) -> tuple[Receipt, list[str]]:
        assert properties == [properties_but_id(message) for message in messages]
        self.batches.append((key, [message.body for message in messages]))
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        places = ",".join([f"AT{number}" for number in range(len(messages))])
        return Receipt(SendStatus.OK, "ALL", places, QUEUE, 40), [f"ID{number}" for number in range(len(messages))]

    def batching(self, linger_ms: float = 1_000, bytes_max: int = 2_000, messages_max: int = 10) -> Batching:
        return Batching(self.deliver, self.gate, linger_ms, bytes_max, messages_max, 1_000)


def added(batching: Batching, message: Message) -> asyncio.Future[Receipt]:
    future = batching.try_add(message)
    assert future is not None
    return future


async def test_each_gets_its_own_receipt_and_leaves_the_gate():
    broker = Broker()
    batching = broker.batching()
    futures = [added(batching, Message("orders", b"%d" % number)) for number in range(3)]
    assert broker.gate._count == 3
    await batching.drain()
    found = [(future.result().message_id, future.result().offset_id, future.result().queue_offset) for future in futures]
    assert found == [("ID0", "AT0", 40), ("ID1", "AT1", 41), ("ID2", "AT2", 42)]
    assert broker.batches == [(BatchKey("orders"), [b"0", b"1", b"2"])]
    assert (broker.gate._count, broker.gate._bytes) == (0, 0)


async def test_only_what_has_the_same_topic_queue_and_wish_shares_one():
    broker = Broker()
    batching = broker.batching()
    for message in (
        Message("orders", b"a"),
        Message("others", b"b"),
        Message("orders", b"c", wait_until_stored=False),
        Message("orders", b"d", keys="k"),
    ):
        added(batching, message)
    await batching.add(Message("orders", b"e"), QUEUE)
    await batching.add(Message("orders", b"f"), None)
    await batching.drain()
    assert broker.batches == [
        (BatchKey("orders"), [b"a", b"d", b"f"]),
        (BatchKey("others"), [b"b"]),
        (BatchKey("orders", None, False), [b"c"]),
        (BatchKey("orders", QUEUE), [b"e"]),
    ]


async def test_a_message_that_cannot_be_sent_is_refused_alone():
    broker = Broker()
    batching = broker.batching()
    neighbour = added(batching, Message("orders", b"a"))
    with pytest.raises(InvalidMessageError, match="properties"):
        batching.try_add(Message("orders", b"b", properties={"long": "x" * 40_000}))
    await batching.drain()
    assert neighbour.result().message_id == "ID0"
    assert broker.gate._count == 0


async def test_what_is_large_or_delayed_or_finds_no_room_is_not_taken():
    batching = Broker().batching()
    for message in (
        Message("orders", b"x" * 1_001),
        Message("orders", b"b", delay_level=1),
        Message("orders", b"b", sharding_key="k"),
    ):
        assert batching.try_add(message) is None
    full = Broker()
    full.gate.try_enter(10_000)
    assert full.batching().try_add(Message("orders", b"b")) is None


async def test_a_refusal_is_everyones_and_one_who_has_left_is_passed_over():
    broker = Broker(BrokerError(1, "no", "a:1"))
    batching = broker.batching()
    one, other = (added(batching, Message("orders", b"a")) for _ in range(2))
    other.cancel()
    await batching.drain()
    assert isinstance(one.exception(), BrokerError)
    assert other.cancelled()
    assert broker.gate._count == 0


async def test_a_batch_that_is_full_is_sent_with_the_one_that_filled_it():
    broker = Broker()
    batching = broker.batching(messages_max=3)
    futures = [added(batching, Message("orders", b"%d" % number)) for number in range(7)]
    await asyncio.gather(*futures[:6])
    assert [bodies for _, bodies in broker.batches] == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    await batching.drain()
    assert [future.result().message_id for future in futures] == ["ID0", "ID1", "ID2", "ID0", "ID1", "ID2", "ID0"]


@pytest.mark.parametrize(("spare_bytes", "sizes"), [(-1, [1, 1, 1, 1]), (0, [2, 2]), (1, [2, 2]), (200, [3, 1])])
async def test_a_batch_is_as_large_as_it_may_be(spare_bytes: int, sizes: list[int]):
    broker, message = Broker(), Message("orders", b"x" * 100)
    message_bytes = len(message.body) + len(properties_but_id(message)) + ENTRY_BYTES
    batching = broker.batching(bytes_max=2 * message_bytes + spare_bytes)
    for _ in range(4):
        added(batching, message)
    await batching.drain()
    assert [len(bodies) for _, bodies in broker.batches] == sizes


async def test_one_that_comes_after_the_batch_has_left_is_in_another():
    broker = Broker()
    batching = broker.batching()
    for number in range(3):
        added(batching, Message("orders", b"%d" % number))
        batching.flush()
    await batching.drain()
    assert [bodies for _, bodies in broker.batches] == [[b"0"], [b"1"], [b"2"]]
    assert broker.gate._count == 0


async def test_the_gate_is_left_as_it_was_entered_even_if_a_message_is_changed_meanwhile():
    broker, message = Broker(), Message("orders", b"a")
    batching = broker.batching()
    added(batching, message)
    message.body = b"x" * 500
    await batching.drain()
    assert (broker.gate._count, broker.gate._bytes) == (0, 0)


async def test_no_more_are_taken_than_the_gate_lets_in():
    broker = Broker()
    broker.gate = Gate(5, 10_000)
    batching = broker.batching()
    taken = [batching.try_add(Message("orders", b"a")) for _ in range(7)]
    assert [future is not None for future in taken] == [True] * 5 + [False] * 2
    await batching.drain()
    assert batching.try_add(Message("orders", b"a")) is not None
