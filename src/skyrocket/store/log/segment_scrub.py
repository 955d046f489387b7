"""Scrubbing: read a closed segment of the log again, and compare every record with its checksums.

Bits flip and sectors go bad in files that nobody reads, and the loss is noticed when a consumer needs the message. Scrubbing
finds it while a backup or a replica may still have it. The findings are those of `skyrocket store verify`.

A segment is read in pieces, with `pread` and a handle of its own: in another thread than the store, and without a mapping, under
which a bad sector would end the process. A page that the disk cannot read counts as damage, and the pages behind it are read.
"""

from __future__ import annotations

import mmap
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from skyrocket.protocol.crc import crc32
from skyrocket.protocol.message.record import BLANK_MAGIC, FIXED_BYTES_MIN, MAGIC, MAGIC_V2
from skyrocket.store.files import File, Files
from skyrocket.store.log.checksum_blocks import ENTRY
from skyrocket.store.log.damage import explain_damage, is_filler
from skyrocket.store.log.scan import PLAIN, DamagedRange, RecordFraming

if TYPE_CHECKING:
    from skyrocket.store.log.checksums import Checksums
    from skyrocket.store.log.commit_log import CommitLog

WINDOW_BYTES = 1024 * 1024
_PAGE_BYTES = 4096
_CHECKSUMS_AT_ONCE = 8192
_SIZE_AND_MAGIC = struct.Struct(">ii")
_ANY_MAGIC = re.compile(b"|".join(re.escape(struct.pack(">i", magic)) for magic in (MAGIC, MAGIC_V2, BLANK_MAGIC)))
_PADDING = struct.pack(">i", -1)  # begins the padding of a log whose records have headers
_ENTRY_MAGICS = re.compile(b"|".join(map(re.escape, (struct.pack(">i", MAGIC), struct.pack(">i", MAGIC_V2), _PADDING))))


class ScrubTarget(NamedTuple):
    """A closed segment, and where its checksums are."""

    start: int
    segment_bytes: int
    path: str
    checksums_path: str
    checksums: int  # how many there are
    framing: RecordFraming = PLAIN  # of the log
    size_bytes: int = 0  # to scrub, of a segment that is not closed; 0: all of it


def find_scrub_target(log: CommitLog, checksums: Checksums, flushed: int, after: int) -> ScrubTarget | None:
    """Return the first closed segment that starts behind `after` and is on disk; None when there is none."""
    segments = log.segments
    for start in segments.starts[bisect_right(segments.starts, after) : -1]:
        if start + segments.segment_bytes <= flushed:
            place = checksums.place_of(start)
            return ScrubTarget(start, segments.segment_bytes, segments.path(start), *place, log.framing)
    return None


class ScrubFinding(NamedTuple):
    """Damage in a segment. As text it reads like a finding of `store verify`."""

    path: str
    offset: int  # in the file
    problem: str
    damaged: DamagedRange = DamagedRange(0, 0)  # of the log

    def __str__(self) -> str:
        return f"{self.path} at {self.offset}: {self.problem}"


class FrameSequence:
    """Whether the frames of a log are numbered one after another, in terms that do not go back.

    A frame's header has no checksum. One that is out of line is found by its neighbours; where either of two could be the wrong
    one, both count as damaged: to write a sound entry again as others have it changes nothing.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None  # number and term that the last frame has, or should have
        self._range = DamagedRange(0, 0)  # of the last frame
        self._is_sure = False  # two frames have agreed

    def add(self, at: int, size: int, place: tuple[int, int] | None) -> DamagedRange | None:
        """Take the next frame, with its number and term. Return what is damaged, the frame or the one before it as well."""
        if place is None:
            return None  # frames of this log have no numbers
        last, before, own = self._last, self._range, DamagedRange(at, size)
        both = DamagedRange(before.offset, at + size - before.offset)
        self._range = own
        if last is None:
            self._last = place
            return None
        follows, is_later = place[0] == last[0] + 1, place[1] >= last[1]
        if follows and is_later:
            self._last, self._is_sure = place, True
            return None
        if not follows and self._is_sure:
            self._last = (last[0] + 1, last[1])
            self._is_sure = False  # if the next one does not agree either, begin anew
            return own
        self._last, self._is_sure = place, False
        return both


class SegmentScrub:
    """Scrubs one segment: call `step` until `is_done`. Any thread may call it, one at a time."""

    def __init__(self, files: Files, target: ScrubTarget) -> None:
        self._target = target
        self._file = files.open(target.path, writable=False)
        self._checksums = _ChecksumReader(files, target)
        self._at = 0  # in the segment
        self._window = b""
        self._window_at = 0
        self._sequence = FrameSequence()
        self._out_of_line: set[int] = set()  # positions of damage that only the order of frames shows
        self._unreadable: dict[int, str] = {}  # position of a page that the disk does not return → why
        self.is_done = False

    @property
    def position(self) -> int:
        """How far the segment was scrubbed."""
        return self._at

    def step(self, size_bytes: int) -> list[ScrubFinding]:
        """Scrub about so many bytes. Return the damage that was found in them."""
        findings: list[ScrubFinding] = []
        stop = self._at + size_bytes
        while not self.is_done and self._at < stop:
            damaged = self._next_item()
            if damaged is not None:
                findings.append(self._explain(damaged))
        return findings

    def close(self) -> None:
        self._file.close()
        self._checksums.close()

    # --- records

    def _next_item(self) -> DamagedRange | None:
        """Move behind the next record, blank or damaged range. Return the latter."""
        at, segment_bytes = self._at, self._target.size_bytes or self._target.segment_bytes
        if segment_bytes - at < _SIZE_AND_MAGIC.size or self._is_blank(at):
            self.is_done = True
            return None
        record = self._examine(at)
        if record is not None:
            size, is_sound = record
            self._at += size
            out_of_line = self._sequence.add(at, size, self._target.framing.place_in_log(self._read(at, size)))
            if is_sound and out_of_line is not None:
                at, size, is_sound = out_of_line.offset, out_of_line.size, False
                self._out_of_line.add(at)
        else:
            self._sequence = FrameSequence()
            following = self._next_sound(at + 1)
            self._at = segment_bytes if following is None else following
            size, is_sound = self._at - at, False
        self.is_done = self._at >= segment_bytes
        return None if is_sound else DamagedRange(self._target.start + at, size)

    def _examine(self, at: int) -> tuple[int, bool] | None:
        """Return the size of the frame at `at`, and whether it is sound; None when none starts there."""
        framing, start = self._target.framing, self._target.start
        header_bytes = framing.header_bytes
        size = framing.frame_bytes(self._read(at, max(header_bytes, _SIZE_AND_MAGIC.size)))
        if not header_bytes + FIXED_BYTES_MIN <= size <= self._target.segment_bytes - at:
            return None
        frame = self._read(at, size)
        fits = self._checksums.matches(at + size, frame[header_bytes:])
        if fits and not header_bytes and not _may_be_filler(frame):
            return size, True  # exactly what was written, so it need not be decoded
        found = framing.record_at(memoryview(frame), start + at, 0)
        return None if found is None else (size, fits is not False and not is_filler(found.record))

    def _is_blank(self, at: int) -> bool:
        head = self._read(at, _SIZE_AND_MAGIC.size)
        return head == self._target.framing.pack_blank(self._target.segment_bytes - at)

    def _next_sound(self, at: int) -> int | None:
        """Return the first position from `at` on where a sound record or the blank starts; None when there is none."""
        for window_at in range(at, self._target.segment_bytes, WINDOW_BYTES):
            for place in self._magics(window_at):
                if place >= at and (self._is_blank(place) or self._examine(place) is not None):
                    return place
        return None

    def _magics(self, window_at: int) -> Iterator[int]:
        """Yield where records may start whose size field lies in the window."""
        header_bytes = self._target.framing.header_bytes
        window = self._read(window_at, WINDOW_BYTES + header_bytes + _SIZE_AND_MAGIC.size)
        magics = _ENTRY_MAGICS if header_bytes else _ANY_MAGIC
        for match in magics.finditer(window, 0 if header_bytes else 4):
            is_padding = header_bytes and match[0] == _PADDING
            place = window_at + match.start() - (0 if is_padding else header_bytes + 4)
            if place >= 0 and self._target.segment_bytes - place >= _SIZE_AND_MAGIC.size:
                yield place

    # --- bytes

    def _read(self, at: int, size: int) -> bytes:
        """Return bytes of the segment; zeros where the disk returns none."""
        size = min(size, self._target.segment_bytes - at)
        if at < self._window_at or at + size > self._window_at + len(self._window):
            length = min(max(size, WINDOW_BYTES), self._target.segment_bytes - at)
            try:
                self._window = self._file.read(at, length)
            except OSError:
                self._window = b"".join(
                    self._read_page(page_at, min(_PAGE_BYTES, at + length - page_at))
                    for page_at in range(at, at + length, _PAGE_BYTES)
                )
            self._window_at = at
        begin = at - self._window_at
        return self._window[begin : begin + size].ljust(size, b"\0")

    def _read_page(self, at: int, size: int) -> bytes:
        try:
            return self._file.read(at, size)
        except OSError as error:
            self._unreadable[at] = error.strerror or str(error)
            return bytes(size)

    # --- findings

    def _explain(self, damaged: DamagedRange) -> ScrubFinding:
        start = self._target.start
        at = damaged.offset - start
        if at in self._out_of_line:
            where = f"{damaged.size} bytes of the log at {damaged.offset}"
            return self._finding(at, f"{where} have a header whose index or term does not fit its neighbours.", damaged)
        for page_at, reason in self._unreadable.items():
            if page_at < at + damaged.size and at < page_at + _PAGE_BYTES:
                problem = f"{damaged.size} bytes of the log at {damaged.offset} cannot be read: {reason}."
                break
        else:
            problem = explain_damage(self._sparse_copy(at, damaged.size), at, damaged, self._target.framing.header_bytes)
        return self._finding(at, problem, damaged)

    def _finding(self, at: int, problem: str, damaged: DamagedRange) -> ScrubFinding:
        kept = 3 if self._target.framing.header_bytes else 2  # of the path: dledger-n0/data/…, or commitlog/…
        return ScrubFinding("/".join(self._target.path.split("/")[-kept:]), at, problem, damaged)

    def _sparse_copy(self, at: int, size: int) -> memoryview:
        """Return a segment that has only these bytes, so that a sentence can name the position in the file."""
        (said,) = struct.unpack_from(">i", self._read(at, 4).ljust(4, b"\0"))
        size = max(size, min(said, self._target.segment_bytes - at)) if said > 0 else size
        size = min(size, 64 * WINDOW_BYTES)
        copy = memoryview(mmap.mmap(-1, self._target.segment_bytes))
        copy[at : at + size] = self._read(at, size)
        return copy


def _may_be_filler(data: bytes) -> bool:
    """Whether a record is marked as a rolled-back transaction and nothing else, as a filler is."""
    return data[36:40] == b"\0\0\0\x0c"


class _ChecksumReader:
    """The checksums of one segment, read in blocks."""

    def __init__(self, files: Files, target: ScrubTarget) -> None:
        self._file: File | None = None
        if target.checksums:
            with suppress(OSError):  # without checksums, a record is checked by the CRC of its body
                self._file = files.open(target.checksums_path, writable=False)
        self._count = target.checksums
        self._block: dict[int, int] = {}  # end of a record in the segment → CRC
        self._first_end = self._last_end = -1  # of the block

    def matches(self, end: int, data: bytes) -> bool | None:
        """Whether a record that ends at `end` matches its checksum; None when it has none.

        As in `Checksums.matches`, a difference of one bit is a flipped bit of the checksum itself.
        """
        if self._file is not None and not self._first_end <= end <= self._last_end:
            with suppress(OSError):
                self._load_block(self._file, end)
        known = self._block.get(end)
        return None if known is None else (known ^ crc32(data)).bit_count() <= 1

    def _load_block(self, file: File, end: int) -> None:
        """Load the block that begins with the checksum of the record that ends at `end`."""
        first = bisect_left(range(self._count), end, key=lambda index: self._end_at(file, index))
        count = min(_CHECKSUMS_AT_ONCE, self._count - first)
        entries = list(ENTRY.iter_unpack(file.read(first * ENTRY.size, count * ENTRY.size)))
        self._block = dict(entries)
        self._first_end, self._last_end = (entries[0][0], entries[-1][0]) if entries else (end, end)

    def _end_at(self, file: File, index: int) -> int:
        end, _ = ENTRY.unpack(file.read(index * ENTRY.size, ENTRY.size))
        return int(end)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
