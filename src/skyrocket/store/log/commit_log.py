"""The commit log: every message of every topic, in order of arrival.

    segment 0                                   segment 1
    +--------+--------+-----+--------+-------+  +--------+--------+---
    | record | record | ... | record | blank |  | record | record | …
    +--------+--------+-----+--------+-------+  +--------+--------+---

A record never crosses the end of a segment. A blank fills the rest: its size, and the BLANK magic.

     0        4        8
     +--------+--------+----- - - -+
     | size   | magic  | anything  |      size: up to the end of the segment, at least 8
     +--------+--------+----- - - -+

One call appends all messages of a read event: the log fills in their offsets and writes them with one `pwrite` per segment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from skyrocket.protocol.message.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT
from skyrocket.protocol.sysflag import BORN_HOST_V6
from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.errors import StoreIOError, TooLargeError, UnreadableError, WritesStoppedError, store_error
from skyrocket.store.files import File, Files, OpenFiles
from skyrocket.store.log.damage import make_fillers
from skyrocket.store.log.read_windows import AHEAD_BYTES, RUN_BYTES_MAX, ReadWindows
from skyrocket.store.log.scan import BLANK, PLAIN, FoundRecord, RecordFraming
from skyrocket.store.log.segments import Segments
from skyrocket.store.retention.expired_files import ExpiredFile

_PLACE = struct.Struct(">qq")  # queue offset and physical offset, which lie side by side in a record
_STORE_TIME = struct.Struct(">q")
_STORE_TIME_AT = 56  # offset in a record with an IPv4 born host
_STORE_TIME_AT_V6 = 68
_SYS_FLAG_LOW_AT = SYS_FLAG_AT + 3  # the byte with the bits for IPv6 hosts

_PAGE_BYTES = 4096
_REWRITTEN_BYTES = 4 * 1024 * 1024  # at once
HOT_BYTES = 256 * 1024 * 1024  # at the end of the log: written recently, still in memory
PREFETCH_BYTES = 16 * 1024 * 1024  # of a new segment, brought into memory ahead of the writes
ALLOCATE_AHEAD_AT = 0.5  # the next segment is created when this part of the current one is written

assert PHYSICAL_OFFSET_AT == QUEUE_OFFSET_AT + 8


@dataclass(slots=True)
class _SegmentRun:
    """Records that one write puts into one segment."""

    start: int  # absolute
    first: int  # index of the first record
    last: int  # index behind the last record
    parts: list[bytes]  # the records, then perhaps a blank


class WrittenRun(NamedTuple):
    """What one write has put into the log."""

    start: int  # absolute
    data: bytes | bytearray  # the records, then perhaps a blank
    offsets: list[int]  # of the records
    end: int  # of the last record; a blank may follow

    def bounds(self) -> list[int]:
        """Return where each record begins, and where the last one ends."""
        return [*self.offsets, self.end]


class CommitLog:
    def __init__(
        self,
        files: Files,
        opened: OpenFiles,
        directory: str,
        segment_bytes: int,
        background: Executor | None = None,
        reads: ColdReads | None = None,
        framing: RecordFraming = PLAIN,
    ) -> None:
        """`framing` says what lies in front of each record. Positions of the log are those of frames."""
        self._files = files
        self.framing = framing
        self.segments = Segments(files, opened, directory, segment_bytes, allocate=True)
        self._background = background
        self._reads = reads or ColdReads()
        self._ahead: tuple[int, Future[File]] | None = None  # the next segment, created ahead of time, and its start
        self._scrub: list[tuple[int, int]] = []  # (offset, size) of bytes that a failed append may have left behind the end
        self.end = 0  # where the next record goes
        self.on_written: Callable[[float], None] | None = None  # gets the seconds that each write took
        self.protected_end = 0  # messages before it are confirmed: recovery keeps what lies behind damage among them
        self.opened_at = 0  # the end when the store was opened: this process wrote what lies behind it
        self.set_aside_offsets: list[int] = []  # where damaged ranges begin that this recovery or an earlier one set aside
        self._windows: ReadWindows | None = None  # None while recovery may change any byte of the log

    @property
    def start(self) -> int:
        return self.segments.start

    def load(self) -> None:
        self.segments.load()
        self.end = self.segments.start

    # --- writing

    def append(self, records: Sequence[bytes], queue_offsets: Sequence[int], store_timestamp: int) -> list[WrittenRun]:
        """Fill in offsets and store time of encoded records, and write them at the end, all or none.

        After an error the log ends where it did before, and nothing of this call is ever read.
        """
        runs = self._plan(records)
        header_bytes = self.framing.header_bytes
        written = [_place_records(run, records, queue_offsets, store_timestamp, header_bytes) for run in runs]
        self._number(written)
        self._write(written, len(records))
        return written

    def _number(self, written: Sequence[WrittenRun]) -> None:
        """Fill in the headers in front of new records."""

    def room_bytes(self) -> int:
        """How many bytes from the place of the next record on fit into the current segment, with the blank that follows the last.

        It may be less than none: then the next record goes into the next segment.
        """
        within = self.end % self.segments.segment_bytes
        return self.segments.segment_bytes - within - self.framing.header_bytes - BLANK.size

    def append_encoded(self, data: bytes, offsets: list[int]) -> WrittenRun:
        """Write records that already contain their offsets and fit into the current segment, all or none.

        `data` holds the records without the headers in front of them; the offsets leave room for those.
        """
        data = self._frame(data, offsets)
        assert len(data) <= self.room_bytes() + self.framing.header_bytes
        written = tuple.__new__(WrittenRun, (self.end, data, offsets, self.end + len(data)))
        self._write([written], len(offsets))
        return written

    def _frame(self, data: bytes, offsets: list[int]) -> bytes:  # noqa: ARG002
        """Return records that lie behind the end of the log at `offsets`, with their headers in front."""
        return data

    def append_replica(self, data: bytes, offsets: list[int], records_end: int) -> WrittenRun:
        """Write what a master has written at the same place: records of one segment, and perhaps its blank, all or none."""
        assert self.end % self.segments.segment_bytes + len(data) <= self.segments.segment_bytes
        written = WrittenRun(self.end, data, offsets, records_end)
        self._write([written], len(offsets))
        return written

    def begin_at(self, offset: int) -> None:
        """Let an empty log start at the segment that a master sends first."""
        assert self.end == self.start, "the log has messages"
        assert offset % self.segments.segment_bytes == 0, f"{offset} is no start of a segment"
        self.close()
        self.segments.drop_all()
        self.end = offset

    def _write(self, written: Sequence[WrittenRun], count: int) -> None:
        began_s = 0.0 if self.on_written is None else perf_counter()
        try:
            if self._scrub:
                self.scrub()
            for start, data, _, _ in written:
                file = self._file_for(start)
                self._scrub.append((start, len(data)))
                file.write(start % self.segments.segment_bytes, data)
        except OSError as error:
            raise store_error(f"appending {count} messages to the commit log", error) from error
        self._scrub.clear()
        self.end = start + len(data)
        if self.on_written is not None:
            self.on_written(perf_counter() - began_s)
        self._create_next_ahead()

    def _plan(self, records: Sequence[bytes]) -> list[_SegmentRun]:
        """Distribute records over the current segment and the next ones."""
        segment_bytes = self.segments.segment_bytes
        header_bytes, header = self.framing.header_bytes, bytes(self.framing.header_bytes)
        at = self.end
        room = segment_bytes - at % segment_bytes
        run = _SegmentRun(at, 0, 0, [])
        runs = [run]
        for index, record in enumerate(records):
            size = header_bytes + len(record)
            if size + BLANK.size > room:
                if size + BLANK.size > segment_bytes:
                    raise TooLargeError(f"A record of {size} bytes does not fit in a segment of {segment_bytes} bytes.")
                run.parts.append(self.framing.pack_blank(room))
                at, room = at + room, segment_bytes
                run = _SegmentRun(at, index, index, [])
                runs.append(run)
            if header_bytes:
                run.parts.append(header)
            run.parts.append(record)
            run.last = index + 1
            at, room = at + size, room - size
        return runs

    def _file_for(self, offset: int) -> File:
        """Return the file that contains `offset`; create it when it is the next segment."""
        start = self.segments.start_of(offset)
        if start is not None:
            return self.segments.file_to_write(start)
        start = offset - offset % self.segments.segment_bytes
        ready = None
        if self._ahead is not None and self._ahead[0] == start:
            future = self._ahead[1]
            self._ahead = None
            ready = future.result()
        return self.segments.add(start, ready)

    def _create_next_ahead(self) -> None:
        within = self.end % self.segments.segment_bytes
        if self._background is None or self._ahead is not None or within < self.segments.segment_bytes * ALLOCATE_AHEAD_AT:
            return
        start = self.segments.stop
        self._ahead = (start, self._background.submit(self._create_segment, start))

    def _create_segment(self, start: int) -> File:
        segment_bytes = self.segments.segment_bytes
        file = self._files.create(self.segments.path(start), segment_bytes, segment_bytes)
        file.prefetch(0, min(PREFETCH_BYTES, segment_bytes))
        return file

    def scrub(self) -> None:
        """Overwrite with zeros what a failed append wrote, and sync.

        Otherwise a later, shorter append could be followed by records of the failed one, and after a power failure an old sector
        could come back under a new record.
        """
        while self._scrub:
            offset, size = self._scrub[-1]
            start = self.segments.start_of(offset)
            if start is not None:
                file = self.segments.file_to_write(start)
                file.write(offset - start, bytes(size))
                try:
                    file.sync()
                except OSError as error:
                    raise WritesStoppedError(f"A flush failed ({error.strerror}); the store takes no more messages.") from error
            self._scrub.pop()

    # --- reading

    @property
    def hot_from(self) -> int:
        """Where the part of the log begins that this process wrote recently. Its pages are still in memory.

        This part is read through a mapping, without a copy. Older pages may have to come from the disk. A mapping would end the
        process with SIGBUS if the disk does not return one, so they are read with a call that raises an error instead.
        """
        return max(self.opened_at, self.end - HOT_BYTES + 1)

    def view(self, offset: int, size: int) -> memoryview | None:
        """Return bytes of the log; None when the log does not have all of them.

        Raise UnreadableError when the disk does not return them. Bytes of the recently written part are not copied.
        """
        start = self.segments.start_of(offset)
        if start is None or size < 0 or offset + size > min(self.end, start + self.segments.segment_bytes):
            return None
        if offset >= self.hot_from:
            return self.segments.file(start).view()[offset - start : offset - start + size]
        try:
            first, data = self._read_cold(start, offset, offset + size, is_run=False)
        except OSError as error:
            raise UnreadableError(f"{size} bytes of the log at {offset} cannot be read ({error.strerror or error}).") from error
        if len(data) < offset - first + size:
            raise UnreadableError(
                f"{size} bytes of the log at {offset} cannot be read: {self.segments.path(start)} is too short."
            )
        found = data[offset - first : offset - first + size]
        # Not a view of a window: whoever keeps the record would keep the window, and its buffer could not be used again.
        return found if isinstance(found.obj, bytes) else memoryview(bytes(found))

    def _read_cold(self, start: int, offset: int, stop: int, *, is_run: bool) -> tuple[int, memoryview]:
        """Return bytes of one segment that contain the range [offset, stop), and where they begin.

        They may end early if the file is too short. Raise OSError when the disk does not return them. A run of records leaves a
        window; a single record does not.
        """
        windows = self._windows
        file = self.segments.file(start)
        if windows is not None:
            found = windows.find(offset, stop)
            if found is not None:
                return found.first, found.data
            if windows.continues(offset) and stop - offset <= RUN_BYTES_MAX:
                with suppress(OSError):  # a bad sector further on is none of this reader's business
                    further = min(stop + AHEAD_BYTES, self.end, start + self.segments.segment_bytes)
                    buffer = windows.take_buffer()
                    size = self._reads.read_into(file, offset - start, memoryview(buffer)[: further - offset])
                    if size >= stop - offset:
                        return offset, windows.add(offset, size, buffer).data
            if is_run:
                buffer = windows.take_buffer()
                size = self._reads.read_into(file, offset - start, memoryview(buffer)[: stop - offset])
                return offset, windows.add(offset, size, buffer).data
            windows.pass_by(stop)
        return offset, memoryview(self._reads.read(file, offset - start, stop - offset))

    def _drop_windows(self) -> None:
        if self._windows is not None:
            self._windows.drop()

    def set_opened_at(self, offset: int) -> None:
        """Set where the part of the log ends that this process has not written. From now on bytes change only behind the end."""
        self.opened_at = offset
        self._windows = ReadWindows()

    def hot_segment(self) -> tuple[int, memoryview]:
        """Return the start of the last segment, and its bytes up to the end of the log, for readers that start at `hot_from`.

        Return 0 and no bytes while the log is empty.
        """
        start = self.segments.start_of(max(self.end - 1, 0))
        if start is None or self.end <= self.hot_from:
            return 0, memoryview(b"")
        return start, self.segments.file(start).view()[: self.end - start]

    def run_view(self, offset: int, stop: int) -> tuple[int, int, memoryview]:
        """Return bytes of one segment for a run of records that begins at `offset` and should end at `stop`.

        Also return the start of the segment, and the offset of the first byte, which may lie before `offset`. If this process
        wrote the first record recently, the bytes are the whole segment. Return no bytes when the log does not contain `offset`,
        the disk does not return the bytes, or they are so many that single records are read faster.
        """
        start = self.segments.start_of(offset)
        if start is None or offset >= self.end:
            return 0, 0, memoryview(b"")  # not `offset`, which may be any number
        if offset >= self.hot_from:
            return start, start, self.segments.file(start).view()[: self.end - start]
        stop = min(stop, self.end, start + self.segments.segment_bytes)
        if not 0 < stop - offset <= RUN_BYTES_MAX:
            return start, offset, memoryview(b"")
        try:
            first, data = self._read_cold(start, offset, stop, is_run=True)
        except OSError:
            return start, offset, memoryview(b"")
        return start, first, data[:]  # a view of its own: the window releases its view when it goes

    def is_blank(self, offset: int) -> bool:
        """Whether the blank of a segment starts at `offset`."""
        head = self.view(offset, BLANK.size)
        return head is not None and bytes(head) == self.framing.pack_blank(
            self.segments.segment_bytes - offset % self.segments.segment_bytes
        )

    # --- damage

    def follows(self, found: FoundRecord, view: memoryview, segment_start: int) -> bool:  # noqa: ARG002
        """Whether a sound record that recovery finds is the one that follows those before it. `view` is its segment."""
        return True

    def keeps_behind(self, offset: int, safe_end: int) -> bool:  # noqa: ARG002
        """Whether records behind damage at `offset` are kept. The log was on disk up to `safe_end`."""
        return True

    def can_fill(self, offset: int, size: int) -> bool:  # noqa: ARG002
        """Whether fillers can take the place of a damaged range."""
        return True

    def make_fillers(self, offset: int, size: int, store_timestamp: int) -> bytes:
        """Return what is written over a damaged range: filler records, or a blank at the end of a segment."""
        if (offset + size) % self.segments.segment_bytes == 0:
            return self.framing.pack_blank(size)
        return make_fillers(offset, size, store_timestamp)

    # --- flushing, shrinking, closing

    def sync(self, start: int, stop: int) -> None:
        """Sync the files that hold the range [start, stop), one after another: there may be more than can be open together."""
        segment_bytes = self.segments.segment_bytes
        for segment_start in range(start - start % segment_bytes, stop, segment_bytes):
            if self.segments.start_of(segment_start) is not None:
                self.segments.file(segment_start).sync()

    def rewrite(self, start: int) -> int:
        """Write the log from `start` on again, sync it, and compare it with what the disk returns. Return how many bytes it is.

        After a failed sync the kernel counts the pages as written that it could not write. They can be read, and a later sync
        skips them. Only bytes that were written since reach the disk.
        """
        self._drop_windows()
        start -= start % _PAGE_BYTES
        for segment_start in [s for s in self.segments.starts if s + self.segments.segment_bytes > start and s < self.end]:
            file = self.segments.file_to_write(segment_start)
            first, stop = max(start - segment_start, 0), min(self.end - segment_start, self.segments.segment_bytes)
            pieces = [(at, min(_REWRITTEN_BYTES, stop - at)) for at in range(first, stop, _REWRITTEN_BYTES)]
            for at, size in pieces:
                file.write(at, file.read(at, size))
            file.sync()
            for at, size in pieces:
                if file.read_from_disk(at, size) != file.read(at, size):
                    raise StoreIOError(
                        f"{self.segments.path(segment_start)} is not on disk as it was written, from {at} to {at + size}, "
                        f"although a sync succeeded. Move the store to another disk."
                    )
        return max(self.end - start, 0)

    def set_end(self, offset: int) -> None:
        """Set the end that recovery found, and delete the empty files behind it."""
        self.end = offset
        self._drop_windows()
        while self.segments.starts and self.segments.starts[-1] > offset:
            self.segments.drop_last()
        if self.segments.starts and self.segments.starts[-1] == offset and len(self.segments.starts) > 1:
            self.segments.drop_last()  # created ahead of time, never written

    def cut(self, offset: int, keep_in: str) -> None:
        """Give up everything from `offset` on, where a record starts. Whole segments are moved to the directory `keep_in`.

        The caller has copied the rest, which becomes zeros.
        """
        self.close()
        self.scrub()
        old_end = self.end
        while self.segments.starts and self.segments.starts[-1] >= offset:
            self.segments.move_last(keep_in)
        self.end = offset if self.segments.starts else 0
        self.opened_at = min(self.opened_at, self.end)
        if not self.segments.starts or offset == self.segments.stop:
            return
        start = self.segments.starts[-1]
        file = self.segments.file_to_write(start)
        stop = min(old_end - start, self.segments.segment_bytes)
        for at in range(offset - start, stop, _REWRITTEN_BYTES):
            file.write(at, bytes(min(_REWRITTEN_BYTES, stop - at)))
        file.sync()

    def take_first(self, count: int) -> list[ExpiredFile]:
        """Give up the first segments. The caller deletes their files, oldest first."""
        self._drop_windows()
        return self.segments.take_first(count)

    def close(self) -> None:
        self._drop_windows()
        if self._ahead is not None:
            start, future = self._ahead
            self._ahead = None
            if future.exception() is None:
                future.result().close()
            self._files.remove(self.segments.path(start))


def _place_records(
    run: _SegmentRun, records: Sequence[bytes], queue_offsets: Sequence[int], store_timestamp: int, header_bytes: int
) -> WrittenRun:
    """Join the records of a run, with queue offset, physical offset and store time filled in."""
    data = bytearray(b"".join(run.parts))
    offsets: list[int] = []
    at, offset = header_bytes, run.start + header_bytes
    place, stamp = _PLACE.pack_into, _STORE_TIME.pack_into
    for record, queue_offset in zip(records[run.first : run.last], queue_offsets[run.first : run.last], strict=True):
        place(data, at + QUEUE_OFFSET_AT, queue_offset, offset)
        stamp(data, at + (_STORE_TIME_AT_V6 if record[_SYS_FLAG_LOW_AT] & BORN_HOST_V6 else _STORE_TIME_AT), store_timestamp)
        offsets.append(offset)
        size = len(record) + header_bytes
        at, offset = at + size, offset + size
    return WrittenRun(run.start, data, offsets, offset - header_bytes)
