"""The trace dispatcher: bounded, batched, and never in the way."""

from __future__ import annotations

import asyncio

import pytest

from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message
from skyrocket.client.producer.trace.dispatcher import (
    MESSAGE_BYTES_MAX,
    MESSAGE_KEYS_BYTES_MAX,
    MESSAGE_ROWS_MAX,
    TraceBuffer,
    TraceDispatcher,
)
from skyrocket.protocol.message.trace import TraceRow, TraceType, decode_trace


def row(number: int, keys: str = "") -> TraceRow:
    return TraceRow(type=TraceType.PUB, message_id=f"ID{number}", keys=keys)


def taken(buffer: TraceBuffer) -> list[tuple[int, list[str]]]:
    """How many rows each message has, and its keys."""
    found = []
    while (message := buffer.take()) is not None:
        found.append((len(decode_trace(message[0].decode())), message[1]))
    return found


def test_rows_share_a_message_with_the_keys_of_all():
    buffer = TraceBuffer()
    buffer.append([row(1, "a"), row(2, "a b")])
    assert taken(buffer) == [(2, ["ID1", "ID2", "a", "b"])]


def test_a_message_has_a_bounded_number_of_rows():
    buffer = TraceBuffer()
    buffer.append([row(number) for number in range(MESSAGE_ROWS_MAX + 1)])
    assert [count for count, _ in taken(buffer)] == [MESSAGE_ROWS_MAX, 1]


def test_the_keys_of_a_message_fit_into_a_property():
    buffer = TraceBuffer()
    buffer.append([row(number, "k" * 3_000 + str(number)) for number in range(10)])
    counts = taken(buffer)
    assert sum(count for count, _ in counts) == 10
    assert all(sum(map(len, keys)) <= MESSAGE_KEYS_BYTES_MAX for _, keys in counts)


def test_a_message_has_a_bounded_size():
    buffer = TraceBuffer()
    buffer.append([TraceRow(type=TraceType.PUB, message_id=f"ID{n}", tags="t" * 30_000) for n in range(10)])
    while (message := buffer.take()) is not None:
        assert len(message[0]) <= MESSAGE_BYTES_MAX


def test_a_full_buffer_drops_rows_and_counts_them():
    buffer = TraceBuffer(rows_max=3)
    buffer.append([row(1), row(2)])
    buffer.append([row(3), row(4), row(5)])
    buffer.append([row(6)])
    assert (len(buffer), buffer.dropped) == (3, 3)


class Sender:
    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self.sent: list[Message] = []
        self.fails = fails
        self.hangs = hangs
        self.is_open = False

    async def start(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False

    async def send(self, message: Message) -> None:
        if self.fails:
            raise ClientError("the broker is away")
        if self.hangs:
            await asyncio.Event().wait()
        self.sent.append(message)


async def test_closing_sends_what_waits():
    sender = Sender()
    dispatcher = TraceDispatcher("traces", sender)
    await dispatcher.start()
    dispatcher.append([row(1), row(2)])
    await dispatcher.close()
    (message,) = sender.sent
    assert (message.topic, list(message.keys), sender.is_open) == ("traces", ["ID1", "ID2"], False)


async def test_enough_rows_are_sent_at_once_from_any_thread():
    sender = Sender()
    dispatcher = TraceDispatcher("traces", sender)
    await dispatcher.start()
    await asyncio.to_thread(lambda: dispatcher.append([row(number) for number in range(MESSAGE_ROWS_MAX)]))
    async with asyncio.timeout(5):
        while not sender.sent:  # noqa: ASYNC110 — the sender has no event
            await asyncio.sleep(0)
    await dispatcher.close()


async def test_a_failed_send_is_logged_and_the_next_rows_are_tried(caplog: pytest.LogCaptureFixture):
    sender = Sender(fails=True)
    dispatcher = TraceDispatcher("traces", sender)
    await dispatcher.start()
    dispatcher.append([row(number) for number in range(MESSAGE_ROWS_MAX)])
    async with asyncio.timeout(5):
        while "lost" not in caplog.text:  # noqa: ASYNC110 — a log has no event
            await asyncio.sleep(0)
    assert "Traces could not be sent to topic 'traces' and are lost: the broker is away" in caplog.text
    sender.fails = False
    dispatcher.append([row(1)])
    await dispatcher.close()
    assert len(sender.sent) == 1


async def test_appending_does_not_wait_for_a_send_that_hangs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr("skyrocket.client.producer.trace.dispatcher.CLOSE_MS", 1)
    dispatcher = TraceDispatcher("traces", Sender(hangs=True))
    await dispatcher.start()
    for number in range(10_000):
        dispatcher.append([row(number)])
        if number == MESSAGE_ROWS_MAX:
            await asyncio.sleep(0)
    assert dispatcher.dropped > 0
    await dispatcher.close()
    assert "could not be sent before the client closed" in caplog.text
