"""The new minimum offsets of all queues when the log loses its first segments.

There may be a hundred thousand queues, and their files are cold. So this reads them with handles of its own and may run in
another thread than the store: entries of messages that expire do not change any more. The store's thread then sets the minimums
with `ConsumeQueue.raise_minimum`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from skyrocket.store.files import File, Files
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES, ConsumeQueue, QueueEntry


def find_minimums(files: Files, queues: Iterable[ConsumeQueue], log_start: int) -> list[tuple[ConsumeQueue, int]]:
    """Return the queues whose first messages lie before `log_start`, each with its new minimum offset.

    A queue that cannot be read, or was deleted meanwhile, keeps its minimum until the next time. Entries that are only in memory
    do not count here: see `ConsumeQueues.expire_late`.
    """
    found = []
    for queue in queues:
        reader = _EntryReader(files, queue)
        with suppress(OSError):
            minimum = queue.find_minimum(log_start, reader.entry)
            if minimum > queue.min_offset:
                found.append((queue, minimum))
        reader.close()
    return found


class _EntryReader:
    """Reads entries of one queue, with at most one file open."""

    def __init__(self, files: Files, queue: ConsumeQueue) -> None:
        self._files = files
        self._queue = queue
        self._path = ""
        self._file: File | None = None

    def entry(self, queue_offset: int) -> QueueEntry | None:
        place = self._queue.place_of(queue_offset)
        if place is None:
            return None
        path, at = place
        if self._file is None or path != self._path:
            self.close()
            self._path, self._file = path, self._files.open(path, writable=False)
        packed = self._file.read(at, ENTRY_BYTES)
        return QueueEntry(*ENTRY.unpack(packed)) if len(packed) == ENTRY_BYTES else None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
