"""A CRC over each whole record, in `checksums/`: one file for each segment of the log, with the segment's name.

     0        4        8
     +--------+--------+
     | end    | CRC-32 |      end: where the record ends in its segment, never 0; entries in order, zeros behind the last
     +--------+--------+
      uint32   uint32

A record's own CRC covers the body only, so a flipped bit in a tag, a key or a timestamp would go unnoticed. Apache's broker does
not have these files and ignores them. A record without an entry (Apache wrote it, or a crash came before the entry) is checked by
the CRC of its body alone.

Entries of new records are gathered in memory and written late, many at once: `write_late`. A reader that needs one of them has
them written first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import StoreError, store_error
from skyrocket.store.files import File, Files, OpenFiles
from skyrocket.store.log.checksum_blocks import AHEAD_ENTRIES, ENTRY, ChecksumBlocks
from skyrocket.store.log.segments import segment_path
from skyrocket.store.retention.expired_files import ExpiredFile

_BLOCK_ENTRIES = 512  # read at once in a search: a page
_PIECE_BYTES = 1024 * 1024  # read at once of a whole file
_ZEROS = bytes(_PIECE_BYTES)
_SMALLEST_RECORD = 92  # bytes: the log needs at most one entry for each


def _pack_checksums(
    data: bytes | bytearray | memoryview, start: int, bounds: list[int], segment_start: int, header_bytes: int = 0
) -> bytes:
    """Pack the entries of the records between the `bounds`. `data` begins at `start`; all positions are offsets in the log.

    The bounds are the starts of the records, and the end of the last one. `header_bytes` lie in front of each record.
    """
    view = memoryview(data)
    ends = [at - header_bytes for at in bounds[1:-1]] + bounds[-1:]
    records = zip(bounds[:-1], ends, strict=False)
    return b"".join([ENTRY.pack(end - segment_start, crc32(view[at - start : end - start])) for at, end in records])


def _find_first_entry(view: bytes | memoryview, count: int, end: int, hint: int) -> int:
    """Return the index of the first of `count` entries whose end is at or behind `end`. Fast if it lies close behind `hint`."""
    low, high = 0, count
    if hint < high and ENTRY.unpack_from(view, hint * ENTRY.size)[0] < end:
        low, step = hint + 1, 1
        while low + step < high and ENTRY.unpack_from(view, (low + step) * ENTRY.size)[0] < end:
            low, step = low + step + 1, step * 2
        high = min(high, low + step + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ENTRY.unpack_from(view, middle * ENTRY.size)[0] < end else (low, middle)
    return low


pack_checksums = twin("dispatch_entries", _pack_checksums)
find_first_entry = twin("dispatch_entries", _find_first_entry)


class Checksums:
    def __init__(
        self,
        files: Files,
        opened: OpenFiles,
        directory: str,
        log_segment_bytes: int,
        reads: ColdReads | None = None,
        header_bytes: int = 0,
    ) -> None:
        """`header_bytes` lie in front of each record of the log. No checksum covers them."""
        self._files = files
        self._opened = opened
        self._directory = directory
        self._segment_bytes = log_segment_bytes
        self._header_bytes = header_bytes
        self._file_bytes = (log_segment_bytes // (_SMALLEST_RECORD + header_bytes) + 1) * ENTRY.size
        self._counts: dict[int, int] = {}  # entries in each segment's file
        self._late: dict[int, bytearray] = {}  # segment → packed entries behind those in its file
        self.late_bytes = 0  # of all of them
        self._hint = (0, 0)  # segment and entry of the record that was found last: readers move forward
        self._run_hint = (0, 0)  # likewise of the last run: single records are found the same way whatever runs were read
        self._reads = reads or ColdReads()
        self._blocks = ChecksumBlocks(find_first_entry)
        self._beyond: dict[int, int] = {}  # end of a record in the log → CRC: untrusted entries that recovery still compares with

    def load(self, trusted_end: int, *, crashed: bool = True, remember_beyond: bool = False) -> None:
        """Load the files. After a crash, delete the entries behind `trusted_end`: their records may be gone.

        With `remember_beyond` these entries are kept in memory for comparison until `cut` is called. That is correct only if no
        other program has written to the store since.
        """
        for name in self._files.names(self._directory):
            path = f"{self._directory}/{name}"
            start = int(name) if name.isdigit() and len(name) == 20 else -1
            if start < 0 or self._files.size(path) != self._file_bytes:
                self._files.remove(path)
                continue
            # Do not search for the first unwritten entry: a power failure leaves holes behind the trusted end.
            end = min(trusted_end - start, self._segment_bytes)
            self._counts[start] = self._written_up_to(start, end) if end > 0 else 0
            if end == self._segment_bytes or (end > 0 and not crashed):
                continue  # no entries lie behind it
            if remember_beyond:
                self._remember(start)
            if end > 0:
                self._truncate(start, end)
            else:
                del self._counts[start]
                self._opened.forget(path)
                self._files.remove(path)

    def _remember(self, start: int) -> None:
        for _, packed in self._pieces(start, self._counts[start]):
            self._beyond.update((start + end, crc) for end, crc in ENTRY.iter_unpack(packed) if end)

    def _pieces(self, start: int, first: int) -> Iterator[tuple[int, bytes]]:
        """Yield the entries of a file from number `first` on, many at once, with the position of each piece.

        Pieces without an entry are left out. Of a new file, which has room for the smallest records, nearly all are.
        """
        file = self._file(start)
        for at in range(first * ENTRY.size, self._file_bytes, _PIECE_BYTES):
            piece = file.read(at, min(_PIECE_BYTES, self._file_bytes - at))
            if piece != _ZEROS[: len(piece)]:
                yield at, piece

    def cut(self, log_end: int) -> None:
        """Delete the entries behind the end of the log that recovery found."""
        self._beyond.clear()
        for start in list(self._counts):
            if log_end < start + self._segment_bytes:
                self._truncate(start, max(0, log_end - start))

    def load_read_only(self, trusted_end: int) -> None:
        """Load the files without changing any. Files that cannot be trusted are skipped."""
        for name in self._files.names(self._directory):
            path = f"{self._directory}/{name}"
            start = int(name) if name.isdigit() and len(name) == 20 else -1
            if 0 <= start < trusted_end and self._files.size(path) == self._file_bytes:
                end = min(trusted_end - start, self._segment_bytes)
                self._counts[start] = self._written_up_to(start, end)

    def append(self, offset: int, data: bytes | bytearray, bounds: list[int]) -> None:
        """Append entries for records of one segment, in memory.

        `data` lies at `offset` in the log. The `bounds` are log offsets: the start of each record, and the end of the last one.
        """
        start = offset - offset % self._segment_bytes
        packed = pack_checksums(data, offset, bounds, start, self._header_bytes)
        late = self._late.get(start)
        if late is None:
            self._late[start] = bytearray(packed)
        else:
            late += packed
        self.late_bytes += len(packed)

    def write_late(self) -> None:
        """Write the entries that are only in memory. After an error they stay there for the next call."""
        while self._late:
            start = next(iter(self._late))
            self._write(start, bytes(self._late[start]))
            self.late_bytes -= len(self._late.pop(start))

    def _write_for_reader(self, start: int, end: int) -> None:
        """Write late entries of a segment if a reader needs records up to `end`. If that fails, the reader does without them."""
        late = self._late.get(start)
        if late and ENTRY.unpack_from(late)[0] <= end:
            with suppress(StoreError):
                self.write_late()

    def renew(self, offset: int, data: memoryview) -> None:
        """Write the checksum of a record again that was damaged, if it has one."""
        self.write_late()
        start = offset - offset % self._segment_bytes
        end, count = offset - start + len(data), self._counts.get(start, 0)
        index = self._search(self._file(start), count, end, 0) if count else 0
        if index < count and self._end_at(self._file(start), index) == end:
            self._blocks.drop()
            self._file_to_write(start).write(index * ENTRY.size, ENTRY.pack(end, crc32(data)))

    def _write(self, start: int, packed: bytes) -> None:
        """Write entries behind those of the file. What a failed write left there is overwritten by the next one."""
        if not packed:
            return
        count = self._counts.get(start, 0)
        try:
            self._file_to_write(start).write(count * ENTRY.size, packed)
        except OSError as error:
            raise store_error("writing checksums", error) from error
        self._counts[start] = count + len(packed) // ENTRY.size

    def complete(self, start: int, packed: bytes) -> None:
        """Add the missing ones of a segment's packed entries, whose records recovery has scanned."""
        first = find_first_entry(packed, len(packed) // ENTRY.size, self._known_end(start) + 1, 0)
        self._write(start, packed[first * ENTRY.size :])

    def _known_end(self, start: int) -> int:
        """Return where the last record with an entry ends in its segment; 0 when none has one."""
        count = self._counts.get(start, 0)
        return self._end_at(self._file(start), count - 1) if count else 0

    def count_equal(self, start: int, packed: bytes) -> int:
        """Count the packed entries of a segment before the first that differs from what is known of its record.

        A record without a checksum differs from nothing.
        """
        known_end = self._known_end(start)
        for number, (end, crc) in enumerate(ENTRY.iter_unpack(packed)):
            known = self._beyond.get(start + end)
            if known is None and end <= known_end:
                known = self._find_by_end(start, end)
            if known is not None and known != crc:
                return number
        return len(packed) // ENTRY.size

    def matches(self, offset: int, data: memoryview) -> bool | None:
        """Whether the record at `offset` matches its checksum; None when it has no checksum.

        A difference of one bit still matches: a flipped bit in the record changes several bits of its CRC, so the bit flipped in
        the checksum file.
        """
        known = self._find(offset, len(data))
        if known is None:
            return None
        crc = crc32(data)
        if self._beyond and any(known == crc >> torn << torn for torn in (8, 16, 24, 32)):
            return None  # a power failure tore this entry
        return (known ^ crc).bit_count() <= 1

    def entries_between(self, start: int, first_end: int, last_end: int, most: int) -> bytes:
        """Return the packed entries of records of a segment that end from `first_end` to `last_end`.

        Return no bytes when there are more than `most` entries, the disk does not return them, or while recovery runs. `matches`
        checks a single record.
        """
        self._write_for_reader(start, last_end)
        count = self._counts.get(start)
        if not count or self._beyond:
            return b""
        found = self._blocks.find(start, first_end, last_end, most)
        if found is not None:
            return found
        try:
            file, hint = self._file(start), self._run_hint[1] if self._run_hint[0] == start else 0
            first = self._search(file, count, first_end, hint)
            last = self._search(file, count, last_end, first)
            if last - first >= most:
                return b""
            self._run_hint = (start, min(last, count - 1))
            read = self._reads.read(file, first * ENTRY.size, (min(last + 1 + AHEAD_ENTRIES, count) - first) * ENTRY.size)
        except OSError:
            return b""
        self._blocks.add(start, read)
        return read[: (last + 1 - first) * ENTRY.size]

    def entries(self, start: int) -> bytes:
        """Return a copy of a segment's packed entries."""
        self._write_for_reader(start, self._segment_bytes)
        count = self._counts.get(start, 0)
        return self._file(start).read(0, count * ENTRY.size) if count else b""

    def _find(self, offset: int, size: int) -> int | None:
        start = offset - offset % self._segment_bytes
        return self._find_by_end(start, offset - start + size)

    def _find_by_end(self, start: int, end: int) -> int | None:
        """Return the checksum of the record that ends at `end` in its segment."""
        self._write_for_reader(start, end)
        count = self._counts.get(start)
        if self._beyond and start + end in self._beyond:
            return self._beyond[start + end]
        if not count:
            return None
        try:
            file = self._file(start)
            index = self._search(file, count, end, self._hint[1] if self._hint[0] == start else 0)
            if index >= count:
                return None
            found, crc = ENTRY.unpack(self._reads.read(file, index * ENTRY.size, ENTRY.size))
        except (OSError, struct.error):
            return None  # the disk does not return it: the record's own CRC remains
        if found != end:
            return None
        self._hint = (start, index)
        return int(crc)

    def _written_up_to(self, start: int, end: int) -> int:
        """Count the entries before the first one whose end is behind `end`. An unwritten entry counts as behind every end."""
        file = self._file(start)
        low, high = 0, self._file_bytes // ENTRY.size
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if 0 < self._end_at(file, middle) <= end else (low, middle)
        return low

    def _end_at(self, file: File, index: int) -> int:
        """Return the end in an entry; 0 when the file is too short for it."""
        packed = self._reads.read(file, index * ENTRY.size, ENTRY.size)
        return int(ENTRY.unpack(packed)[0]) if len(packed) == ENTRY.size else 0

    def _search(self, file: File, count: int, end: int, hint: int) -> int:
        """Return the index of the first of `count` entries whose end is at or behind `end`. Fast if it lies close behind `hint`.

        The file is read and not mapped: a disk that does not return a page raises an error.
        """
        low, high = 0, count
        first = min(hint, max(0, count - 1))
        block = self._reads.read(file, first * ENTRY.size, min(_BLOCK_ENTRIES, count - first) * ENTRY.size)
        held = len(block) // ENTRY.size
        if held and ENTRY.unpack_from(block)[0] < end:
            found = find_first_entry(block, held, end, 0)
            if found < held or first + held == count:
                return first + found
            low = first + held
        else:
            high = first
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._end_at(file, middle) < end else (low, middle)
        block = self._reads.read(file, low * ENTRY.size, (high - low) * ENTRY.size)
        return low + find_first_entry(block, len(block) // ENTRY.size, end, 0)

    def _count_up_to(self, start: int, end: int) -> int:
        """Count the known entries that end at or before `end`."""
        count = self._counts[start]
        return self._search(self._file(start), count, end + 1, count)

    def _truncate(self, start: int, end: int) -> None:
        """Delete the entries of records that end behind `end`."""
        self._blocks.drop()
        kept = self._count_up_to(start, end)
        for at, packed in self._pieces(start, kept):
            self._file_to_write(start).write(at, bytes(len(packed.rstrip(b"\0"))))
        self._counts[start] = kept

    def _file(self, start: int) -> File:
        path = segment_path(self._directory, start)
        if start not in self._counts and not self._files.exists(path):
            return self._opened.create(path, self._file_bytes, 0, durable=False)  # a checkpoint syncs it
        return self._opened.get(path)

    def _file_to_write(self, start: int) -> File:
        path = segment_path(self._directory, start)
        if start not in self._counts and not self._files.exists(path):
            self._opened.create(path, self._file_bytes, 0, durable=False)
        return self._opened.get_to_write(path)

    def place_of(self, start: int) -> tuple[str, int]:
        """Return the path of a segment's file, and how many entries it has."""
        self._write_for_reader(start, self._segment_bytes)
        return segment_path(self._directory, start), self._counts.get(start, 0)

    def expire(self, log_start: int) -> list[ExpiredFile]:
        """Give up the files of segments before `log_start`. The caller deletes them."""
        expired = []
        self._blocks.drop()
        for start in [start for start in self._late if start < log_start]:
            self.late_bytes -= len(self._late.pop(start))
        for start in [start for start in self._counts if start < log_start]:
            del self._counts[start]
            path = segment_path(self._directory, start)
            expired.append(ExpiredFile(path, self._opened.take(path)))
        return expired
