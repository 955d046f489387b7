"""Split the bytes that a master sends into whole records and blanks. Pure.

    bytes from the master   | …cord | record | rec…          a transfer may begin and end anywhere in a record
    handed out              | record | record |              whole records, and the blank at the end of a segment
    kept in memory                            | rec… |       until the rest arrives

A slave appends only what is whole. So its log always ends behind a record or a blank, and recovery finds nothing torn. Each
record is checked before it is handed out: its size, its magic, the CRC of its body, and that its physical offset is the place
where it goes. Bytes that are no record never reach the log.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from skyrocket.protocol.message.record import BLANK_MAGIC, FIXED_BYTES_MIN, MAGIC, MAGIC_V2
from skyrocket.store.errors import ReplicaDataError
from skyrocket.store.log.scan import FoundRecord, record_at

RECORD_BYTES_MAX: Final = 32 * 1024 * 1024  # kept in memory until it is whole; twice the largest maxMessageSize
_SIZE_AND_MAGIC: Final = struct.Struct(">ii")


class ReplicaRun(NamedTuple):
    """Whole records of one segment, and perhaps the blank behind them."""

    start: int  # in the log
    data: bytes
    records: list[FoundRecord]
    records_end: int  # where the last record ends; a blank may follow

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class RecordSplitter:
    def __init__(self, segment_bytes: int, position: int) -> None:
        """`position` is the end of the slave's log: the first byte that comes belongs there."""
        self._segment_bytes = segment_bytes
        self._start = position  # of the first byte that is kept
        self._kept = bytearray()
        self._needed = _SIZE_AND_MAGIC.size  # how many bytes must be kept before there is something whole

    @property
    def position(self) -> int:
        """Where the next byte belongs."""
        return self._start + len(self._kept)

    def feed(self, data: bytes | memoryview) -> list[ReplicaRun]:
        """Take the bytes that follow. Return what is whole now. Raise ReplicaDataError for bytes that are no record."""
        self._kept += data
        if len(self._kept) < self._needed:
            return []
        runs = []
        view = memoryview(bytes(self._kept))
        at = 0
        while len(view) - at >= self._needed:
            run = self._next_run(view, at)
            if not run.data:
                break
            runs.append(run)
            at += len(run.data)
        self._start += at
        del self._kept[:at]
        return runs

    def _next_run(self, view: memoryview, first: int) -> ReplicaRun:
        """Return what is whole from `first` on, up to the end of the segment. Remember how many bytes the next part needs."""
        start = self._start + first
        segment_start = start - start % self._segment_bytes
        in_segment = view[first : first + segment_start + self._segment_bytes - start]
        records: list[FoundRecord] = []
        at = 0
        records_end = start
        while True:
            self._needed = self._size_at(in_segment, at, start)
            if len(in_segment) - at < self._needed:
                break
            if _SIZE_AND_MAGIC.unpack_from(in_segment, at)[1] == BLANK_MAGIC:
                at += self._needed
                self._needed = _SIZE_AND_MAGIC.size
                break
            found = record_at(in_segment, start, at)
            if found is None:
                raise ReplicaDataError(
                    f"The master sent {self._needed} bytes for the log at {start + at} that are no sound record for that place."
                )
            records.append(found)
            at += self._needed
            records_end = start + at
        return ReplicaRun(start, bytes(in_segment[:at]), records, records_end)

    def _size_at(self, view: memoryview, at: int, start: int) -> int:
        """Return the size of the record or blank at `at`, or of its first two fields when they are not there yet."""
        offset = start + at
        room = self._segment_bytes - offset % self._segment_bytes
        if len(view) - at < _SIZE_AND_MAGIC.size <= room:
            return _SIZE_AND_MAGIC.size
        size: int
        magic: int
        size, magic = _SIZE_AND_MAGIC.unpack_from(bytes(view[at : at + _SIZE_AND_MAGIC.size]).ljust(_SIZE_AND_MAGIC.size))
        if size <= RECORD_BYTES_MAX:
            if magic == BLANK_MAGIC and size == room:
                return size
            if magic in (MAGIC, MAGIC_V2) and FIXED_BYTES_MIN <= size <= room:
                return size
        raise ReplicaDataError(
            f"The master sent something for the log at {offset} that is no record: its size is {size}, its magic "
            f"{magic & 0xFFFF_FFFF:#x}, and {room} bytes are left in the segment. Is mappedFileSizeCommitLog the same on both?"
        )
