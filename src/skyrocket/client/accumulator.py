"""Messages that wait a little for company, so that one request carries many. Pure.

    joined(key, entry, size)      one more, where a batch has room for it and others
    add(key, entry, size, now)    one more in any case; the batches that are full by it
    due(now)                      those whose first message has waited long enough
    next_due_ms()                 when to ask again
    take_all()                    all that is left, at the end

A batch goes to one queue, so only what has the same key may share one. What is held is bounded by who adds (`gate`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")


@dataclass(slots=True, eq=False)
class Batch(Generic[K, E]):
    key: K
    due_ms: float
    entries: list[E] = field(default_factory=list)
    size_bytes: int = 0


class Accumulator(Generic[K, E]):
    def __init__(self, linger_ms: float, bytes_max: int, messages_max: int) -> None:
        self._linger_ms = linger_ms
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._open: dict[K, Batch[K, E]] = {}  # the first to be due first: all linger equally long

    def __len__(self) -> int:
        return sum(len(batch.entries) for batch in self._open.values())

    def joined(self, key: K, entry: E, size_bytes: int) -> bool:
        """Whether it is in a batch that was open, and still is."""
        batch = self._open.get(key)
        if batch is None:
            return False
        total_bytes, entries = batch.size_bytes + size_bytes, batch.entries
        if total_bytes >= self._bytes_max or len(entries) + 1 >= self._messages_max:
            return False
        entries.append(entry)
        batch.size_bytes = total_bytes
        return True

    def add(self, key: K, entry: E, size_bytes: int, now_ms: float) -> list[Batch[K, E]]:
        full: list[Batch[K, E]] = []
        batch = self._open.get(key)
        if batch is not None and batch.size_bytes + size_bytes > self._bytes_max:
            full.append(self._open.pop(key))
            batch = None
        if batch is None:
            batch = self._open[key] = Batch(key, now_ms + self._linger_ms)
        batch.entries.append(entry)
        batch.size_bytes += size_bytes
        if batch.size_bytes >= self._bytes_max or len(batch.entries) >= self._messages_max:
            full.append(self._open.pop(key))
        return full

    def due(self, now_ms: float) -> list[Batch[K, E]]:
        late: list[Batch[K, E]] = []
        for batch in self._open.values():
            if batch.due_ms > now_ms:
                break
            late.append(batch)
        for batch in late:
            del self._open[batch.key]
        return late

    def next_due_ms(self) -> float | None:
        return next(iter(self._open.values())).due_ms if self._open else None

    def take_all(self) -> list[Batch[K, E]]:
        left = list(self._open.values())
        self._open.clear()
        return left
