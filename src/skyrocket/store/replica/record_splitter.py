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

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import BLANK_MAGIC, FIXED_BYTES_MIN, MAGIC, MAGIC_V2, decode_record
from skyrocket.store.errors import ReplicaDataError
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.log.record_run import read_run
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.message import DispatchFields

RECORD_BYTES_MAX: Final = 32 * 1024 * 1024  # kept in memory until it is whole; twice the largest maxMessageSize
_RUN_MAX: Final = 4096  # records read at once
_SIZE_AND_MAGIC: Final = struct.Struct(">ii")
_MAGICS: Final = frozenset((MAGIC, MAGIC_V2))


class ReplicaRun(NamedTuple):
    """Whole records of one segment, and perhaps the blank behind them."""

    start: int  # in the log
    data: bytes
    offsets: list[int]  # where the records begin in the log
    records_end: int  # where the last record ends; a blank may follow
    messages: list[DispatchFields | FoundRecord]  # what queues and index need of ordinary records; other records as they are

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
        self._shapes = ShapeCache()

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
        kept = bytes(self._kept)
        at = 0
        while len(kept) - at >= self._needed:
            start = self._start + at
            run = self._next_run(kept[at : at + self._segment_bytes - start % self._segment_bytes], start)
            if not run.data:
                break
            runs.append(run)
            at += len(run.data)
        self._start += at
        del self._kept[:at]
        return runs

    def _next_run(self, data: bytes, start: int) -> ReplicaRun:
        """Return what is whole of bytes of one segment, which lie at `start`. Remember how many bytes the next part needs."""
        offsets: list[int] = []
        messages: list[DispatchFields | FoundRecord] = []
        at = records_end = 0
        available = len(data)
        while True:
            if run := read_run(data, start, at, _RUN_MAX, self._shapes):
                offsets += [one[3] for one in run]
                messages += run
                at = records_end = run[-1][3] + run[-1][4] - start
            size, magic = _SIZE_AND_MAGIC.unpack_from(data, at) if available - at >= _SIZE_AND_MAGIC.size else (0, 0)
            if magic not in _MAGICS or not FIXED_BYTES_MIN <= size <= available - at:
                self._needed = self._size_at(data, at, start)
                if available - at < self._needed:
                    break
                at += self._needed  # a blank
                self._needed = _SIZE_AND_MAGIC.size
                break
            offsets.append(start + at)
            messages.append(_check_record(data, at, start + at, size))
            at += size
            records_end = at
        return ReplicaRun(start, data[:at], offsets, start + records_end, messages)

    def _size_at(self, data: bytes, at: int, start: int) -> int:
        """Return the size of the record or blank at `at`, or of its first two fields when they are not there yet.

        Raise ReplicaDataError for anything else.
        """
        offset = start + at
        room = self._segment_bytes - offset % self._segment_bytes
        if len(data) - at < _SIZE_AND_MAGIC.size <= room:
            return _SIZE_AND_MAGIC.size
        size: int
        magic: int
        size, magic = _SIZE_AND_MAGIC.unpack(data[at : at + _SIZE_AND_MAGIC.size].ljust(_SIZE_AND_MAGIC.size))
        if size <= RECORD_BYTES_MAX:
            if magic == BLANK_MAGIC and size == room:
                return size
            if magic in _MAGICS and FIXED_BYTES_MIN <= size <= room:
                return size
        raise ReplicaDataError(
            f"The master sent something for the log at {offset} that is no record: its size is {size}, its magic "
            f"{magic & 0xFFFF_FFFF:#x}, and {room} bytes are left in the segment. Is mappedFileSizeCommitLog the same on both?"
        )


def _check_record(data: bytes, at: int, offset: int, size: int) -> FoundRecord:
    """Decode the record at `at`, which belongs to the log at `offset`. Raise ReplicaDataError when it is not sound."""
    try:
        record = decode_record(data, at)
    except RecordError as error:
        raise ReplicaDataError(
            f"The master sent {size} bytes for the log at {offset} that are no sound record: {error}"
        ) from error
    if record.physical_offset != offset:
        raise ReplicaDataError(
            f"The master sent {size} bytes for the log at {offset} that are no sound record there: its offset is "
            f"{record.physical_offset}."
        )
    return FoundRecord(offset, size, record)
