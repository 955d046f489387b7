from __future__ import annotations

from skyrocket.client.message import Message
from skyrocket.client.producer.accumulator import Accumulator, Batch


def bodies(batches: list[Batch[str]]) -> list[bytes]:
    """Join the bodies of each batch."""
    return [b"".join([message.body for message in batch.messages]) for batch in batches]


class Adder:
    """Places messages of one byte each."""

    def __init__(self, linger_ms: float = 5, bytes_max: int = 100, messages_max: int = 10) -> None:
        self.accumulator: Accumulator[str] = Accumulator(linger_ms, bytes_max, messages_max)

    def __call__(self, body: bytes, size_bytes: int, now_ms: float = 0, key: str = "t") -> list[bytes]:
        """Return the bodies of the batches that are full now."""
        batch, full = self.accumulator.place(key, size_bytes, now_ms)
        batch.messages.append(Message("orders", body))
        return bodies(full)


def test_batch_is_due_when_its_first_message_has_lingered():
    add = Adder(linger_ms=5)
    assert add(b"1", 10, now_ms=0) == []
    assert add(b"2", 10, now_ms=4) == []
    assert add.accumulator.next_due_ms() == 5
    assert add.accumulator.due(4.9) == []
    assert bodies(add.accumulator.due(5)) == [b"12"]
    assert add.accumulator.next_due_ms() is None


def test_full_batch_leaves_at_once_with_the_message_that_filled_it():
    add = Adder(bytes_max=100, messages_max=3)
    assert add(b"1", 50) == []
    assert add(b"2", 50) == [b"12"]
    assert [add(body, 1) for body in (b"3", b"4", b"5")] == [[], [], [b"345"]]
    assert add.accumulator.take_all() == []


def test_message_that_does_not_fit_closes_the_batch_and_opens_another():
    add = Adder(linger_ms=5, bytes_max=100)
    add(b"1", 60, now_ms=0)
    assert add(b"2", 60, now_ms=3) == [b"1"]
    assert add.accumulator.next_due_ms() == 8


def test_message_that_fills_a_batch_alone_can_close_two():
    add = Adder(bytes_max=100)
    add(b"1", 60)
    assert add(b"2", 100) == [b"1", b"2"]


def test_different_keys_do_not_share_a_batch():
    add = Adder(linger_ms=5)
    add(b"1", 1, now_ms=0, key="one")
    add(b"2", 1, now_ms=1, key="two")
    assert bodies(add.accumulator.due(5)) == [b"1"]
    assert bodies(add.accumulator.take_all()) == [b"2"]


def test_batch_has_the_size_of_all_its_messages():
    add = Adder()
    add(b"1", 30)
    add(b"2", 12)
    assert [batch.size_bytes for batch in add.accumulator.take_all()] == [42]
