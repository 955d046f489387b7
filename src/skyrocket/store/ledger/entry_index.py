"""The index of a DLedger log: for each entry, where it lies. Segments of 5,242,880 entries, in `index/` beside `data/`.

     0       4               12      16              24              32
     +-------+---------------+-------+---------------+---------------+
     | magic | pos           | size  | index         | term          |      of entry i at 32 · i
     | 1     |               |       |               |               |
     +-------+---------------+-------+---------------+---------------+
      int32   int64           int32   int64           int64

Everything here can be built again from the headers in `data/`, and the other way round: where one is damaged, the other tells.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from skyrocket.protocol.ledger_entry import ENTRY_MAGIC
from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.ledger.entry import EntryHeader
from skyrocket.store.log.segments import Segments
from skyrocket.store.retention.expired_files import ExpiredFile

INDEX_ENTRY: Final = struct.Struct(">iqiqq")
INDEX_ENTRY_BYTES: Final = INDEX_ENTRY.size
INDEX_FILE_BYTES: Final = INDEX_ENTRY_BYTES * 5_242_880
_ALLOCATED_BYTES: Final = 1024 * 1024  # zeroed at once when the end is cut

assert INDEX_ENTRY_BYTES == 32


def pack_index_entry(header: EntryHeader) -> bytes:
    return INDEX_ENTRY.pack(ENTRY_MAGIC, header.pos, header.size, header.index, header.term)


def unpack_index_entry(data: bytes | memoryview, at: int = 0) -> EntryHeader | None:
    """Decode an index entry; None when the bytes are none."""
    if len(data) - at < INDEX_ENTRY_BYTES:
        return None
    magic, pos, size, index, term = INDEX_ENTRY.unpack_from(data, at)
    if magic != ENTRY_MAGIC or pos < 0 or size <= 0 or index < 0 or term < 0:
        return None
    return EntryHeader(size, index, term, pos)


def find_index_bytes(files: Files, directory: str) -> int:
    """Return the size that the index files of a directory have; DLedger's own when there is none."""
    sizes = (files.size(f"{directory}/{name}") for name in files.names(directory))
    return next((size for size in sizes if size and size % INDEX_ENTRY_BYTES == 0), INDEX_FILE_BYTES)


class EntryIndex:
    """The index files, for the store that owns them or for a reader (`opened` says which)."""

    def __init__(
        self,
        files: Files,
        opened: OpenFiles,
        directory: str,
        reads: ColdReads | None = None,
        file_bytes: int = INDEX_FILE_BYTES,
    ) -> None:
        self._segments = Segments(files, opened, directory, file_bytes, allocate=False)
        self._file_bytes = file_bytes
        self._reads = reads or ColdReads()

    def load(self) -> None:
        self._segments.load()

    @property
    def first(self) -> int:
        """The index of the first entry for which there is a file."""
        return self._segments.start // INDEX_ENTRY_BYTES

    @property
    def room_end(self) -> int:
        """The index behind the last one for which there is a file."""
        return self._segments.stop // INDEX_ENTRY_BYTES

    @property
    def directory(self) -> str:
        return self._segments.directory

    def place_of(self, index: int) -> tuple[str, int]:
        """Return the path of the file for an entry, and where it lies there."""
        at = index * INDEX_ENTRY_BYTES
        return self._segments.path(at - at % self._file_bytes), at % self._file_bytes

    def get(self, index: int) -> EntryHeader | None:
        """Return what the index has of an entry; None when it has none, or other bytes."""
        found = self.read(index, 1)
        return found[0] if found else None

    def read(self, index: int, count: int) -> list[EntryHeader]:
        """Return up to `count` consecutive entries from `index` on; fewer at the end of a file, or before one that is unsound."""
        at = index * INDEX_ENTRY_BYTES
        start = self._segments.start_of(at) if index >= 0 else None
        if start is None:
            return []
        size = min(count * INDEX_ENTRY_BYTES, start + self._file_bytes - at)
        try:
            packed = self._reads.read(self._segments.file(start), at - start, size)
        except OSError as error:
            raise store_error(f"reading {self._segments.path(start)}", error) from error
        found: list[EntryHeader] = []
        for number, place in enumerate(range(0, len(packed) - INDEX_ENTRY_BYTES + 1, INDEX_ENTRY_BYTES)):
            entry = unpack_index_entry(packed, place)
            if entry is None or entry.index != index + number:
                break
            found.append(entry)
        return found

    def write(self, headers: Sequence[EntryHeader]) -> None:
        """Write consecutive entries at their places. Raise OSError when that fails."""
        if headers:
            self.write_packed(headers[0].index, b"".join(map(pack_index_entry, headers)))

    def write_packed(self, index: int, packed: bytes) -> None:
        """Like `write`, for packed entries from `index` on."""
        at = index * INDEX_ENTRY_BYTES
        while packed:
            start = at - at % self._file_bytes
            if self._segments.starts and start > self._segments.stop:
                self._segments.drop_all()  # a log that begins anew, far behind: nothing of the old one counts
            has_file = self._segments.start_of(at) is not None
            if not has_file and self._segments.starts and start < self._segments.start:
                self._segments.drop_all()
            file = self._segments.file_to_write(start) if has_file else self._segments.add_anew(start)
            room = start + self._file_bytes - at
            file.write(at - start, packed[:room])
            at, packed = at + min(room, len(packed)), packed[room:]

    def cut(self, index: int) -> None:
        """Forget the entries from `index` on, and write zeros in their place."""
        at = index * INDEX_ENTRY_BYTES
        segments = self._segments
        while len(segments.starts) > 1 and segments.starts[-1] >= at:
            segments.drop_last()
        start = segments.start_of(at)
        if start is None:
            return
        file = segments.file(start)
        for place in range(at - start, self._file_bytes, _ALLOCATED_BYTES):
            stale = file.read(place, min(_ALLOCATED_BYTES, self._file_bytes - place)).rstrip(b"\0")
            if not stale:
                break  # entries have no gaps: nothing lies behind a megabyte of zeros
            segments.file_to_write(start).write(place, bytes(len(stale)))

    def remove(self) -> None:
        """Delete all files: the index is built again, or the log begins anew."""
        self._segments.drop_all()

    def sync(self) -> None:
        """Sync all files: recovery may have changed any of them. Raise OSError when that fails."""
        for start in self._segments.starts:
            self._segments.file(start).sync()

    def take_before(self, index: int) -> list[ExpiredFile]:
        """Give up the files that hold only entries before `index`. The caller deletes them."""
        starts, at = self._segments.starts, index * INDEX_ENTRY_BYTES
        count = 0
        while count + 1 < len(starts) and starts[count + 1] <= at:
            count += 1
        return self._segments.take_first(count) if count else []

    def find_at(self, pos: int, first: int, last: int) -> int:
        """Return the index of the first entry from `first` to `last` that begins at or behind `pos`; `last` + 1 if none does."""
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            entry = self.get(middle)
            low, high = (middle + 1, high) if entry is not None and entry.pos < pos else (low, middle)
        return low
