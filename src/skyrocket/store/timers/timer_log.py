"""The timer log: one unit for each message of the timer topic, in the order in which the messages were taken in.

     0        4             12       16            24       28            36       40       44            52
     +--------+-------------+--------+-------------+--------+-------------+--------+--------+-------------+
     | size:  | position of | magic  | when it was | delay, | message:    | its    | hash   | nothing     |
     | 52     | the unit    |        | taken in,   | ms     | physical    | size   | of its | yet         |
     |        | before      |        | ms          |        | offset      |        | topic  |             |
     +--------+-------------+--------+-------------+--------+-------------+--------+--------+-------------+

"Before" is the previous unit of the same slot of the wheel; -1 in the first unit of a slot. So the units of a slot form a chain
through the log, and the wheel only stores its last link. The magic is 1. With 2 added, the message is not due yet in that slot
but rolled: stored again and taken in again. With 4 added, the unit deletes another message.

The time of taking in plus the delay is a time within the slot. Apache writes the start of the slot. We write one millisecond
before the due time, which always lies in the same slot. Apache reads it the same way, and we know the due time to the millisecond
without reading the message.

Units never cross the end of a file. When a unit and a blank no longer fit, a blank fills the rest:

     0        4             12       16
     +--------+-------------+--------+
     | size   | 0           | magic  |       size: up to the end of the file
     +--------+-------------+--------+
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from skyrocket.store.errors import UnreadableError, store_error
from skyrocket.store.files import Files, OpenFiles, UnsyncedFiles
from skyrocket.store.log.segments import Segments
from skyrocket.store.retention.expired_files import ExpiredFile

UNIT: Final = struct.Struct(">iqiqiqiiq")
BLANK: Final = struct.Struct(">iqi")
BLANK_MAGIC: Final = -875_286_124  # 0xCBD43194, as in the commit log
NO_POSITION: Final = -1

WAITS: Final = 1
ROLLS: Final = 2
DELETES: Final = 4
_MAGIC_MASK = 0xF

_OPEN_FILES_MAX = 16  # 100 MiB each
_BLOCK_BYTES = 52 * 1024  # read at once: 1,024 units. A file starts with a unit, so no unit crosses the end of a block
_UNITS_AT_ONCE = 20_000
_ZEROS_BYTES = 1024 * 1024


# The fields of a TimerUnit, in order, as a plain tuple: for loops over many units.
UnitFields = tuple[int, int, int, int, int, int, int, int, int]


class TimerUnit(NamedTuple):
    unit_bytes: int
    before: int
    magic: int
    taken_in_ms: int
    delay_ms: int
    physical_offset: int
    size: int  # of the message, in bytes
    topic_hash: int
    unused: int

    @property
    def time_ms(self) -> int:
        return self.taken_in_ms + self.delay_ms


class TimerLog:
    def __init__(self, files: Files, directory: str, segment_bytes: int) -> None:
        self._files = files
        self._opened = OpenFiles(files, _OPEN_FILES_MAX)
        self.segments = Segments(files, self._opened, directory, segment_bytes, allocate=False)
        self._block: tuple[int, bytes] = (0, b"")  # position and bytes of the block that was read last
        self.end = 0

    def load(self) -> None:
        """Load the files. The end of the log is set by `truncate` or by the caller."""
        self.segments.load()
        self.end = self.segments.stop

    @property
    def start(self) -> int:
        return self.segments.start

    # --- writing

    def prepare(self) -> None:
        """Create the first file of an empty log, which is durable before a unit needs it. This waits for the disk."""
        if not self.segments.starts:
            self.segments.add(0)

    def places(self, count: int) -> list[int]:
        """Return the positions of the next `count` units."""
        segment_bytes = self.segments.segment_bytes
        at = self.end
        places: list[int] = []
        while len(places) < count:
            room = segment_bytes - at % segment_bytes
            fitting = min((room - BLANK.size) // UNIT.size, count - len(places))
            places += range(at, at + fitting * UNIT.size, UNIT.size)
            at += room
        return places

    def append(self, places: Sequence[int], units: Sequence[bytes]) -> None:
        """Append packed units at the positions that `places` returned. After an error the log ends where it did before."""
        segment_bytes = self.segments.segment_bytes
        first = 0
        at = self.end
        try:
            while first < len(places):
                start = places[first] - places[first] % segment_bytes
                if places[first] > at:  # the unit goes into the next segment: a blank fills the rest of this one
                    blank_bytes = places[first] - at
                    self._write(at, BLANK.pack(blank_bytes, 0, BLANK_MAGIC))
                last = first + 1
                while last < len(places) and places[last] < start + segment_bytes:
                    last += 1
                self._write(places[first], b"".join(units[first:last]))
                at = places[last - 1] + UNIT.size
                first = last
        except OSError as error:
            raise store_error(f"appending {len(units)} units to the timer log", error) from error
        self.end = at

    def _write(self, position: int, data: bytes) -> None:
        start = position - position % self.segments.segment_bytes
        has_file = self.segments.start_of(position) is not None
        file = self.segments.file_to_write(start) if has_file else self.segments.add(start)
        file.write(position - start, data)
        self._block = (0, b"")  # it may lie where these bytes are

    def truncate(self, end: int) -> None:
        """Cut the log off at `end`, with zeros behind it. Raise OSError when they cannot be written."""
        while self.segments.starts and self.segments.starts[-1] >= max(end, 1):
            self.segments.drop_last()
        self._block = (0, b"")
        self.end = end
        start = self.segments.start_of(end)
        if start is None:
            return
        file = self.segments.file_to_write(start)
        for at in range(end - start, self.segments.segment_bytes, _ZEROS_BYTES):
            stretch = file.read(at, min(_ZEROS_BYTES, self.segments.segment_bytes - at))
            if stretch.count(0) < len(stretch):
                file.write(at, bytes(len(stretch)))

    # --- reading

    def unit(self, position: int) -> TimerUnit | None:
        """Return the unit at a position; None when there is no sound unit."""
        start, block = self._block
        at = position - start
        if not 0 <= at <= len(block) - UNIT.size:
            start, block = self._read_block(position)
            at = position - start
            if at > len(block) - UNIT.size:
                return None
        if position + UNIT.size > self.end:
            return None
        unit = TimerUnit._make(UNIT.unpack_from(block, at))
        return unit if unit.unit_bytes == UNIT.size and not unit.magic & ~_MAGIC_MASK and unit.before < position else None

    def _read_block(self, position: int) -> tuple[int, bytes]:
        """Read the units around a position, and remember them. Raise UnreadableError when the disk does not return them.

        Blocks are read and not mapped: a mapping would end the process with SIGBUS.
        """
        start = self.segments.start_of(position) if position >= 0 else None
        if start is None:
            return position, b""
        first = (position - start) // _BLOCK_BYTES * _BLOCK_BYTES
        self._block = (start + first, self._read(start, first, _BLOCK_BYTES))
        return self._block

    def _read(self, start: int, at: int, size: int) -> bytes:
        try:
            return self.segments.file(start).read(at, min(size, self.segments.segment_bytes - at))
        except OSError as error:
            raise UnreadableError(f"The timer log at {start + at} cannot be read ({error.strerror or error}).") from error

    def units_at(self, positions: Sequence[int]) -> list[UnitFields | None]:
        """Return the units at many positions; None where there is no sound unit."""
        found: list[UnitFields | None] = []
        unpack = UNIT.unpack_from
        start, block, last = self._known_block()
        for position in positions:
            at = position - start
            unit: UnitFields | None
            if 0 <= at <= last:
                unit = unpack(block, at)
            else:
                unit = self.unit(position)
                start, block, last = self._known_block()  # most of the next ones lie there
            is_sound = unit is not None and unit[0] == UNIT.size and not unit[2] & ~_MAGIC_MASK and unit[1] < position
            found.append(unit if is_sound else None)
        return found

    def _known_block(self) -> tuple[int, bytes, int]:
        """Return the block that was read last, and the last place in it where a whole unit of the log may start."""
        start, block = self._block
        return start, block, min(len(block), self.end - start) - UNIT.size

    def chain(self, position: int, most: int) -> list[tuple[int, UnitFields]]:
        """Return the unit at a position and the units before it in its slot, with their positions.

        Return fewer than `most` at the end of the chain, where the chain leads before the start of the log, and at a unit that is
        not sound.
        """
        found: list[tuple[int, UnitFields]] = []
        log_start, unpack = self.start, UNIT.unpack_from
        start, block, last = self._known_block()
        while position >= log_start and len(found) < most:
            at = position - start
            unit: UnitFields | None
            if 0 <= at <= last:
                unit = unpack(block, at)
            else:
                unit = self.unit(position)
                start, block, last = self._known_block()
            if unit is None or unit[0] != UNIT.size or unit[2] & ~_MAGIC_MASK or unit[1] >= position:
                break
            found.append((position, unit))
            position = unit[1]
        return found

    def units(self, position: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield the units from `position` on, with their positions, up to the first that is not sound."""
        while position < self.end:
            start = self.segments.start_of(position)
            if start is None:
                return
            stop = min(self.end - start, self._units_per_segment * UNIT.size)
            count = max(0, start + stop - position) // UNIT.size
            while count:
                some = min(count, _UNITS_AT_ONCE)
                packed = self._read(start, position - start, some * UNIT.size)
                for unit in map(TimerUnit._make, UNIT.iter_unpack(packed[: len(packed) // UNIT.size * UNIT.size])):
                    if unit.unit_bytes != UNIT.size or unit.magic & ~_MAGIC_MASK or unit.before >= position:
                        return
                    yield position, unit
                    position += UNIT.size
                if len(packed) < some * UNIT.size:
                    return  # the file is too short
                count -= some
            position = start + self.segments.segment_bytes

    def last_in(self, start: int) -> TimerUnit | None:
        """Return the last unit of a full segment."""
        return self.unit(start + (self._units_per_segment - 1) * UNIT.size)

    @property
    def _units_per_segment(self) -> int:
        return (self.segments.segment_bytes - BLANK.size) // UNIT.size

    # --- syncing and deleting

    def take_unsynced(self) -> UnsyncedFiles:
        """Return the files written since the last call. The caller syncs them, in any thread."""
        return self._opened.take_unsynced()

    def put_back(self, taken: UnsyncedFiles) -> None:
        """Count files as unsynced again that could not be opened."""
        self._opened.put_back(taken)

    def expire(self, log_start: int) -> list[ExpiredFile]:
        """Give up the files whose messages are all gone from the commit log. The caller deletes them."""
        expired: list[ExpiredFile] = []
        while len(self.segments.starts) > 1:
            last = self.last_in(self.segments.start)
            if last is None or last.physical_offset >= log_start:
                break
            self._block = (0, b"")
            expired += self.segments.take_first(1)
        return expired

    def drop(self) -> None:
        """Delete the whole log."""
        self.close()
        self._files.remove(self.segments.directory)
        self.segments.starts = []
        self.end = 0

    def close(self) -> None:
        self._block = (0, b"")
        self._opened.close()
