"""Automatic batches: who shares one, who does not, and that nobody suffers for another."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.batching import Batching, BatchKey, Waiting
from skyrocket.client.errors import BrokerError, InvalidMessageError
from skyrocket.client.gate import Gate
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, SendStatus

QUEUE = Queue("orders", "broker-a", 1)


class Broker:
    """Takes batches, and remembers them."""

    def __init__(self, error: BrokerError | None = None) -> None:
        self.batches: list[tuple[BatchKey, list[bytes]]] = []
        self.gate = Gate(100, 10_000)
        self._error = error

    async def deliver(self, key: BatchKey, waiting: list[Waiting]) -> Receipt:
        self.batches.append((key, [message.body for message, _, _ in waiting]))
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        ids = ",".join(f"ID{number}" for number in range(len(waiting)))
        return Receipt(SendStatus.OK, ids, ids.replace("ID", "AT"), QUEUE, 40)

    def batching(self, linger_ms: float = 1_000, bytes_max: int = 2_000, messages_max: int = 10) -> Batching:
        return Batching(self.deliver, self.gate, linger_ms, bytes_max, messages_max, 1_000)


def added(batching: Batching, message: Message) -> asyncio.Future[Receipt]:
    future = batching.try_add(message)
    assert future is not None
    return future


def test_each_gets_its_own_receipt_and_leaves_the_gate():
    async def scene() -> None:
        broker = Broker()
        batching = broker.batching()
        futures = [added(batching, Message("orders", b"%d" % number)) for number in range(3)]
        assert broker.gate._count == 3
        await batching.drain()
        found = [(future.result().message_id, future.result().offset_id, future.result().queue_offset) for future in futures]
        assert found == [("ID0", "AT0", 40), ("ID1", "AT1", 41), ("ID2", "AT2", 42)]
        assert broker.batches == [(BatchKey("orders"), [b"0", b"1", b"2"])]
        assert (broker.gate._count, broker.gate._bytes) == (0, 0)

    asyncio.run(scene())


def test_only_what_has_the_same_topic_queue_and_wish_shares_one():
    async def scene() -> None:
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

    asyncio.run(scene())


def test_a_message_that_cannot_be_sent_is_refused_alone():
    async def scene() -> None:
        broker = Broker()
        batching = broker.batching()
        neighbour = added(batching, Message("orders", b"a"))
        with pytest.raises(InvalidMessageError, match="properties"):
            batching.try_add(Message("orders", b"b", properties={"long": "x" * 40_000}))
        await batching.drain()
        assert neighbour.result().message_id == "ID0"
        assert broker.gate._count == 0

    asyncio.run(scene())


def test_what_is_large_or_delayed_or_finds_no_room_is_not_taken():
    async def scene() -> None:
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

    asyncio.run(scene())


def test_a_refusal_is_everyones_and_one_who_has_left_is_passed_over():
    async def scene() -> None:
        broker = Broker(BrokerError(1, "no", "a:1"))
        batching = broker.batching()
        one, other = (added(batching, Message("orders", b"a")) for _ in range(2))
        other.cancel()
        await batching.drain()
        assert isinstance(one.exception(), BrokerError)
        assert other.cancelled()
        assert broker.gate._count == 0

    asyncio.run(scene())
