"""Messages that wait a little for company, so that one request carries many. Pure.

    place(key, size, now)         the batch for one more, and the batches that are full before it or by it
    due(now)                      those whose first message has waited long enough
    next_due_ms()                 when to ask again
    take_all()                    all that is left, at the end

A batch goes to one queue, so only what has the same key may share one. What is held is bounded by who adds (`gate`).
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Hashable
from typing import Generic, TypeVar

from skyrocket.client.message import Message
from skyrocket.client.receipt import Receipt

K = TypeVar("K", bound=Hashable)


class Batch(Generic[K]):
    """Messages, their properties but for the id, and who waits for their receipts: three lists side by side, since an object for
    each message would cost more than all of them."""

    __slots__ = ("due_ms", "futures", "key", "messages", "properties", "size_bytes")

    def __init__(self, key: K, due_ms: float) -> None:
        self.key = key
        self.due_ms = due_ms
        self.size_bytes = 0
        self.messages: list[Message] = []
        self.properties: list[str] = []
        self.futures: list[Future[Receipt]] = []


class Accumulator(Generic[K]):
    def __init__(self, linger_ms: float, bytes_max: int, messages_max: int) -> None:
        self._linger_ms = linger_ms
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._open: dict[K, Batch[K]] = {}  # the first to be due first: all linger equally long

    def place(self, key: K, size_bytes: int, now_ms: float) -> tuple[Batch[K], list[Batch[K]]]:
        """Whoever asks puts his message into it at once, even if it is among the full ones."""
        full: list[Batch[K]] = []
        batch = self._open.get(key)
        if batch is not None and batch.size_bytes + size_bytes > self._bytes_max:
            full.append(self._open.pop(key))
            batch = None
        if batch is None:
            batch = self._open[key] = Batch(key, now_ms + self._linger_ms)
        batch.size_bytes += size_bytes
        if batch.size_bytes >= self._bytes_max or len(batch.messages) + 1 >= self._messages_max:
            full.append(self._open.pop(key))
        return batch, full

    def due(self, now_ms: float) -> list[Batch[K]]:
        late: list[Batch[K]] = []
        for batch in self._open.values():
            if batch.due_ms > now_ms:
                break
            late.append(batch)
        for batch in late:
            del self._open[batch.key]
        return late

    def next_due_ms(self) -> float | None:
        return next(iter(self._open.values())).due_ms if self._open else None

    def take_all(self) -> list[Batch[K]]:
        left = list(self._open.values())
        self._open.clear()
        return left
