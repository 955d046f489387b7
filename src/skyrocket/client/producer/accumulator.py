"""The accumulator: open batches of messages that wait a little, so that one request carries many. Pure.

    place(key, size, now)         the batch for one more message, and the batches that are full before or with it
    due(now)                      the batches whose first message has waited long enough
    next_due_ms()                 when to call `due` again
    take_all()                    the remaining batches, at the end

A batch goes to one queue, so only messages with equal keys share one. The in-flight limit bounds how many messages wait.
"""

from __future__ import annotations

from typing import Generic

from skyrocket.client.producer.open_batch import Batch, K, new_batch


class Accumulator(Generic[K]):
    """Decides which messages share a batch, and when a batch is sent."""

    def __init__(self, linger_ms: float, bytes_max: int, messages_max: int) -> None:
        self._linger_ms = linger_ms
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._open: dict[K, Batch[K]] = {}  # in the order in which they are due: all linger equally long

    def place(self, key: K, size_bytes: int, now_ms: float) -> tuple[Batch[K], list[Batch[K]]]:
        """Return the batch for one more message, and the batches to send now.

        The caller must append its message to the first at once: that batch may be among those to send.
        """
        full: list[Batch[K]] = []
        batch = self._open.get(key)
        if batch is not None and batch.size_bytes + size_bytes > self._bytes_max:
            full.append(self._open.pop(key))
            batch = None
        if batch is None:
            batch = self._open[key] = new_batch(key, now_ms + self._linger_ms)
        batch.size_bytes += size_bytes
        if batch.size_bytes >= self._bytes_max or len(batch.messages) + 1 >= self._messages_max:
            full.append(self._open.pop(key))
        return batch, full

    def due(self, now_ms: float) -> list[Batch[K]]:
        """Remove and return the batches that have lingered long enough."""
        late: list[Batch[K]] = []
        for batch in self._open.values():
            if batch.due_ms > now_ms:
                break
            late.append(batch)
        for batch in late:
            del self._open[batch.key]
        return late

    def next_due_ms(self) -> float | None:
        """Return when the next batch is due; None when no batch is open."""
        return next(iter(self._open.values())).due_ms if self._open else None

    def take_all(self) -> list[Batch[K]]:
        """Remove and return every open batch."""
        left = list(self._open.values())
        self._open.clear()
        return left
