"""A window of a consume queue's entries, read ahead for one reader that goes through the queue.

    | entries in the files                          | entries in memory |
              | window: up to WINDOW_ENTRIES |
                  ^ the reader

A read from the files is a system call, and a reader asks for a few entries at a time. Entries do not change, except when one is
repaired or the queue shrinks: the queue counts that (`rewrites`), and the window is read again.
"""

from __future__ import annotations

from typing import Final

from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.queues.consume_queue import ENTRY_BYTES, ConsumeQueue

WINDOW_ENTRIES: Final = 256


class EntryWindow:
    __slots__ = ("_first", "_packed", "_queue", "_rewrites", "_stop")

    def __init__(self) -> None:
        self._queue: ConsumeQueue | None = None  # whose entries these are
        self._rewrites = 0  # of the queue, when they were read
        self._first = self._stop = 0  # queue offsets
        self._packed = b""

    def read(self, queue: ConsumeQueue, offset: int, count: int) -> bytes:
        """Return what `queue.read` returns, fewer entries at the end of a file included."""
        if self._first <= offset and offset + count <= self._stop and self._queue is queue and self._rewrites == queue.rewrites:
            at = (offset - self._first) * ENTRY_BYTES
            return self._packed[at : at + count * ENTRY_BYTES]
        ahead = min(WINDOW_ENTRIES, queue.written_offset - offset)
        if ahead <= count:
            return queue.read(offset, count)
        try:
            packed = queue.read(offset, ahead)
        except NotInMemoryError:
            return queue.read(offset, count)
        self._queue, self._rewrites, self._packed = queue, queue.rewrites, packed
        self._first, self._stop = offset, offset + len(packed) // ENTRY_BYTES
        return packed[: count * ENTRY_BYTES]
