"""The commit log of a store directory, read while its broker runs or after it has stopped.

Nothing is written, locked or created. The bytes alone show where the log ends:

    | record | record | damaged | record | zeros, or a record that is being written ...
                      ^ reported         ^ the LogEnd: nothing sound follows in any segment

An unreadable range with something sound behind it is damage. An unreadable range with nothing sound behind it is the tail of the
log, and no error.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator

from skyrocket.store.errors import store_error
from skyrocket.store.files import Files, OpenFiles
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import PLAIN, Blank, DamagedRange, FoundRecord, LogEnd, RecordFraming
from skyrocket.store.log.segments import segment_name

OPEN_SEGMENTS_MAX = 64  # mapped at the same time; a view that a caller holds keeps its own mapping
_PAGE_BYTES = 4096


class OfflineLog:
    def __init__(self, files: Files, directory: str, framing: RecordFraming = PLAIN) -> None:
        """`framing` says how records lie in this log: one after another, or each with the header of a DLedger entry."""
        self._files = files
        self.framing = framing
        self._opened = OpenFiles(files, OPEN_SEGMENTS_MAX, writable=False)
        self._checksums: Checksums | None = None
        self.directory = directory
        self.starts: list[int] = []
        self.refresh()
        sizes = (self._size(start) for start in self.starts)
        self.segment_bytes = next((size for size in sizes if size), 0)

    def refresh(self) -> None:
        """Read the directory again: a running broker adds and deletes segments."""
        names = self._files.names(self.directory)
        self.starts = [int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit()]

    def trust(self, checksums_directory: str, safe_end: int) -> None:
        """Use the checksum files for records before `safe_end`: skyrocket has written both."""
        header_bytes = self.framing.header_bytes
        self._checksums = Checksums(self._files, self._opened, checksums_directory, self.segment_bytes, header_bytes=header_bytes)
        self._checksums.load_read_only(safe_end)

    @property
    def start(self) -> int:
        return self.starts[0] if self.starts else 0

    @property
    def checksums(self) -> Checksums | None:
        return self._checksums

    def path(self, start: int) -> str:
        return f"{self.directory}/{segment_name(start)}"

    def start_of(self, offset: int) -> int | None:
        """Return the start of the segment that contains `offset`; None when there is none."""
        index = bisect_right(self.starts, offset) - 1
        if index < 0 or offset >= self.starts[index] + self.segment_bytes:
            return None
        return self.starts[index]

    def after(self, offset: int) -> int | None:
        """Return the first segment that starts behind `offset`; None when there is none."""
        self.refresh()
        return next((start for start in self.starts if start > offset), None)

    # --- bytes

    def segment(self, start: int) -> memoryview | None:
        """Return a segment's bytes; None when the file has expired in the meantime, or is being created."""
        if not self._size(start):
            return None
        try:
            return self._opened.get(self.path(start)).view()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise store_error(f"reading {self.path(start)}", error) from error

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return bytes of the log; None when the log does not have all of them."""
        start = self.start_of(offset)
        segment = None if start is None else self.segment(start)
        if start is None or segment is None or size < 0 or offset - start + size > len(segment):
            return None
        return segment[offset - start : offset - start + size]

    def _size(self, start: int) -> int:
        try:
            return self._files.size(self.path(start))
        except FileNotFoundError:
            return 0

    # --- records

    def record_at(self, offset: int, *, check: bool = True) -> FoundRecord | None:
        """Return the record with this physical offset; None when there is none, or it is damaged."""
        start = self.start_of(offset)
        segment = None if start is None else self.segment(start)
        if start is None or segment is None:
            return None
        item = self._record(segment, start, offset - start - self.framing.header_bytes, check)
        return item if isinstance(item, FoundRecord) else None

    def walk(self, offset: int = 0, *, check: bool = True) -> Iterator[FoundRecord | DamagedRange | LogEnd]:
        """Yield everything from `offset` on, where a frame must start. The last item, and only the last, is a LogEnd."""
        unread: list[DamagedRange] = []  # unreadable ends of segments: damage only if something sound follows
        end = offset
        start = self.start_of(offset)
        if start is None:
            start = self.after(offset)
            end = start or end
        while start is not None:
            if start > end:
                unread.append(DamagedRange(end, start - end))  # a file is missing
            border = start + self.segment_bytes
            for item in self._walk_segment(start, max(0, end - start), check):
                if isinstance(item, LogEnd):
                    unread.append(DamagedRange(item.offset, border - item.offset))
                elif not isinstance(item, Blank):
                    if unread and self._is_written(
                        unread[0].offset
                    ):  # it was the tail when it was read, and has been written since
                        yield from self.walk(unread[0].offset, check=check)
                        return
                    yield from (
                        lost for lost in unread if lost.offset >= self.start
                    )  # a segment that has expired in the meantime is no damage
                    unread.clear()
                    yield item
            end = border
            start = self.after(start)
        yield LogEnd(unread[0].offset if unread else end)

    def _walk_segment(self, start: int, at: int, check: bool) -> Iterator[FoundRecord | Blank | DamagedRange | LogEnd]:
        segment = self.segment(start)
        if segment is None:
            yield LogEnd(start + at)
            return
        while at < len(segment):
            item: FoundRecord | Blank | DamagedRange | LogEnd | None = self._record(segment, start, at, check)
            if item is None:
                item = self._other(segment, start, at, check)
                if item is None:
                    continue  # it was being written when it was first read
            yield item
            if isinstance(item, Blank | LogEnd):
                return
            at = item.offset - start + item.size
        if at < self.segment_bytes:
            yield LogEnd(start + at)  # the file is shorter than it should be

    def _record(self, segment: memoryview, start: int, at: int, check: bool) -> FoundRecord | DamagedRange | None:
        """Return the record at `at`; a damaged range for a damaged record or a filler; None when no record starts there."""
        found = self.framing.record_at(segment, start, at, check_crc=check) if at >= 0 else None
        if found is None:
            return None
        place = found.offset - start
        is_whole = (
            not check or self._checksums is None or self._checksums.matches(found.offset, segment[place : place + found.size])
        )
        if is_whole is False or is_filler(found.record):
            return DamagedRange(start + at, place - at + found.size)
        return found

    def _other(self, segment: memoryview, start: int, at: int, check: bool) -> Blank | DamagedRange | LogEnd | None:
        """Return what lies where there is no record; None when a record has been written there in the meantime."""
        if self.framing.is_blank(segment, at):
            return Blank(start + at, len(segment) - at)
        if self._is_unwritten(segment, start, at):
            return LogEnd(start + at)
        following = self.framing.next_sound(segment, start, at + 1)
        if following is None:
            return LogEnd(start + at)
        if self.framing.record_at(segment, start, at, check_crc=check) is not None:
            return None
        return DamagedRange(start + at, following - at)

    def _is_written(self, offset: int) -> bool:
        """Whether a record or the blank starts at `offset`."""
        start = self.start_of(offset)
        segment = None if start is None else self.segment(start)
        if start is None or segment is None:
            return False
        at = offset - start
        return self.framing.record_at(segment, start, at, check_crc=False) is not None or self.framing.is_blank(segment, at)

    def _is_unwritten(self, segment: memoryview, start: int, at: int) -> bool:
        """Whether nothing was ever written from `at` on, by the file system. Saves reading a gigabyte of zeros."""
        page_end = at - at % _PAGE_BYTES + _PAGE_BYTES
        return not any(segment[at:page_end]) and _is_hole(self.path(start), page_end)

    def boundary(self, offset: int) -> int:
        """Return where the frame of the record at `offset` starts; otherwise the start of the first frame behind it."""
        start = self.start_of(offset)
        segment = None if start is None else self.segment(start)
        if start is None or segment is None or offset == start:
            return offset
        at, header_bytes = offset - start, self.framing.header_bytes
        for frame_at in (at, at - header_bytes):
            if frame_at >= 0 and self.framing.record_at(segment, start, frame_at, check_crc=False) is not None:
                return start + frame_at
        if self.framing.is_blank(segment, at):
            return offset
        for item in self._walk_segment(start, 0, check=False):
            frame = item.offset - header_bytes if isinstance(item, FoundRecord) else item.offset
            if item.offset >= offset:
                return frame
            if not isinstance(item, LogEnd) and item.offset + item.size >= offset:
                return item.offset + item.size
        return offset

    def first_since(self, timestamp: int) -> int:
        """Return the start of a segment before which no message was stored at or after `timestamp`. Store times never go back."""
        low, high = 0, len(self.starts)
        while low < high:
            middle = (low + high) // 2
            first = self.first_of(self.starts[middle])
            is_before = first is not None and first.record.store_timestamp < timestamp
            low, high = (middle + 1, high) if is_before else (low, middle)
        return self.starts[low - 1] if low else self.start

    def first_of(self, start: int) -> FoundRecord | None:
        """Return the first record of a segment; None when it cannot be read."""
        return self.record_at(start + self.framing.header_bytes, check=False)

    def close(self) -> None:
        self._opened.close()


def _is_hole(path: str, at: int) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    finally:
        os.close(descriptor)
    return False
