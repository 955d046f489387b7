"""A consume queue of a store directory, read without a broker. Files are opened read-only, when they are first needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from skyrocket.store.errors import store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.log.segments import segment_name
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES, PRE_BLANK, QueueEntry

ENTRIES_AT_ONCE = 1024
_PRE_BLANK = QueueEntry(*ENTRY.unpack(PRE_BLANK))


class OfflineQueue:
    def __init__(self, files: Files, opened: OpenFiles, directory: str) -> None:
        self._files = files
        self._opened = opened
        self.directory = directory
        self.starts: list[int] = []  # of the files, in bytes
        self.file_bytes = 0
        self.max_offset = 0  # the queue offset of the next entry
        self.refresh()

    def refresh(self) -> None:
        """Read the directory again: a running broker adds entries and deletes old files."""
        names = self._files.names(self.directory)
        self.starts = [int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit()]
        sizes = (self._size(start) for start in self.starts)
        self.file_bytes = next((size for size in sizes if size), 0)
        self.max_offset = 0
        for start in reversed(self.starts):
            count = self._count(start)
            if count or start == self.starts[0]:
                self.max_offset = start // ENTRY_BYTES + count
                return

    def min_offset(self, log_start: int) -> int:
        """Return the queue offset of the first entry whose message is still in the log."""
        low, high = self.starts[0] // ENTRY_BYTES if self.starts else 0, self.max_offset
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(middle)
            is_gone = entry is None or entry == _PRE_BLANK or entry.physical_offset < log_start
            low, high = (middle + 1, high) if is_gone else (low, middle)
        return low

    def path_of(self, queue_offset: int) -> tuple[str, int]:
        """Return the file that holds an entry, and the position within the file."""
        at = queue_offset * ENTRY_BYTES
        start = at - at % self.file_bytes if self.file_bytes else 0
        return f"{self.directory}/{segment_name(start)}", at - start

    def entry(self, queue_offset: int) -> QueueEntry | None:
        packed = self.read(queue_offset, 1)
        return QueueEntry(*ENTRY.unpack(packed)) if packed else None

    def entries(self, queue_offset: int) -> Iterator[tuple[int, QueueEntry]]:
        """Yield the entries from `queue_offset` on, with their queue offsets. A missing file is skipped."""
        while queue_offset < self.max_offset:
            packed = self.read(queue_offset, ENTRIES_AT_ONCE)
            if not packed:
                at = queue_offset * ENTRY_BYTES
                queue_offset = next((start for start in self.starts if start > at), self.max_offset * ENTRY_BYTES) // ENTRY_BYTES
                continue
            for entry in ENTRY.iter_unpack(packed):
                yield queue_offset, QueueEntry(*entry)
                queue_offset += 1

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return up to `count` packed entries; fewer at the end of the queue or of a file."""
        at = queue_offset * ENTRY_BYTES
        index = bisect_right(self.starts, at) - 1
        count = min(count, self.max_offset - queue_offset)
        if index < 0 or count <= 0 or at >= self.starts[index] + self.file_bytes:
            return b""
        start = self.starts[index]
        return self._read(start, at - start, min(count * ENTRY_BYTES, start + self.file_bytes - at))

    def _count(self, start: int) -> int:
        """Count the written entries of a file. They are a prefix of the file."""
        low, high = 0, self._size(start) // ENTRY_BYTES
        while low < high:
            middle = (low + high) // 2
            packed = self._read(start, middle * ENTRY_BYTES, ENTRY_BYTES)
            is_written = len(packed) == ENTRY_BYTES and ENTRY.unpack(packed)[1] > 0
            low, high = (middle + 1, high) if is_written else (low, middle)
        return low

    def _read(self, start: int, at: int, size: int) -> bytes:
        path = f"{self.directory}/{segment_name(start)}"
        try:
            packed = self._opened.get(path).read(at, size)
        except FileNotFoundError:
            return b""  # the file has expired in the meantime
        except OSError as error:
            raise store_error(f"reading {path}", error) from error
        return packed[: len(packed) - len(packed) % ENTRY_BYTES]

    def _size(self, start: int) -> int:
        try:
            return self._files.size(f"{self.directory}/{segment_name(start)}")
        except FileNotFoundError:
            return 0
