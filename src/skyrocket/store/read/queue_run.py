"""Read a run of a queue's records together: the fast path of a pull.

Each record is compared with its queue entry: size, queue offset and physical offset. That is enough for a record that this
process wrote recently, because record and entry are still in memory. For an older record, queue, topic and checksum are checked
too; the checksums of the whole run are fetched at once. There is no run when a record does not match its entry, has no checksum,
or lies in another segment than the first one. Then the general path (`reading`) checks the records one by one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.message.record import MAGIC, PHYSICAL_OFFSET_AT, SYS_FLAG_AT, magic_for, topic_field
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6
from skyrocket.store.log.checksum_blocks import ENTRY as CHECKSUM
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.read_windows import RUN_BYTES_MAX
from skyrocket.store.log.segments import Segments
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES

_PLACE = struct.Struct(">i16xqq")  # in a record: size, queue offset, physical offset
_HEAD = struct.Struct(">4xi4xi20xi44xi")  # in a record with two IPv4 hosts: magic, queue id, sys flag, body length
_HOST_V6 = BORN_HOST_V6 | STORE_HOST_V6
RECORDS_PER_READ_MAX = 1024  # queue entries that one read examines
_RUN_RECORDS_MIN = 32  # of a run that ends early; fewer are too few for a response
_CHECKSUMS_MAX = 16_384  # of all records in between, also of other queues: 1,024 messages in one of 16 queues


def run_length(packed: bytes, hot_from: int) -> int:
    """Return how many of the first entries can be read as one run: all, or a power of two whose records lie close together.

    Records of other queues lie between those of one queue, and a run of old records is read with all that lies in between. A
    power of two, because a client that reads ahead learns how many messages a response has, and must learn anew when it varies.
    All, too, if a run would be too short.
    """
    count = len(packed) // ENTRY_BYTES
    start = ENTRY.unpack_from(packed)[0]
    if start >= hot_from or count <= _RUN_RECORDS_MIN or _end_of(packed, count - 1) - start <= RUN_BYTES_MAX:
        return count
    length = 1 << (count - 1).bit_length() - 1  # the largest power of two below
    while length >= _RUN_RECORDS_MIN:
        if _end_of(packed, length - 1) - start <= RUN_BYTES_MAX:
            return length
        length //= 2
    return count


class QueueRun(NamedTuple):
    """Consecutive messages of a queue, as views of the log."""

    records: list[memoryview]
    next_offset: int  # queue offset to continue at


class RunLog(Protocol):
    """The log as a run sees it."""

    segments: Segments

    def run_view(self, offset: int, stop: int) -> tuple[int, int, memoryview]:
        """See `CommitLog.run_view`."""


class TurnLog:
    """The log while nothing is appended: the recently written part of its last segment is looked up once, for all runs."""

    __slots__ = ("_end", "_first", "_found", "_log", "segments")

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self.segments = log.segments
        start, view = log.hot_segment()
        self._first, self._end = max(log.hot_from, start), start + len(view)
        self._found = (start, start, view)

    def run_view(self, offset: int, stop: int) -> tuple[int, int, memoryview]:
        return self._found if self._first <= offset < self._end else self._log.run_view(offset, stop)


class RunSources(NamedTuple):
    """What a run is read from."""

    log: RunLog
    checksums: Checksums
    hot_from: int  # log offset from which on this process wrote the records itself


class RunQuery(NamedTuple):
    """What a pull asks for: messages of a queue from `offset` on, within limits."""

    topic: str
    queue_id: int
    offset: int
    records_max: int
    bytes_max: int  # at least one record is returned
    codes: frozenset[int] | None  # hashes of the tags to return; None: all messages


def read_queue_run(log: RunLog, checksums: Checksums, hot_from: int, packed: bytes, query: RunQuery) -> QueueRun | None:
    """Read the records of packed entries, which begin at `query.offset`. Return None when the general path must read them."""
    topic, queue_id, offset, records_max, bytes_max, codes = query
    start, base, segment = log.run_view(*_range_of(packed, query))
    end_at = len(segment)
    known: dict[int, int] = {}  # end → checksum
    known_to = 0
    place, topic_bytes = _PLACE.unpack_from, topic_field(topic, magic_for(topic))
    records: list[memoryview] = []
    for physical_offset, size, code in ENTRY.iter_unpack(packed):
        if codes is None or code in codes:
            bytes_max -= size
            if len(records) >= records_max or (bytes_max < 0 and records):
                break
            at, stop = physical_offset - base, physical_offset - start + size
            if at < 0 or size < _PLACE.size or at + size > end_at or place(segment, at) != (size, offset, physical_offset):
                return None
            view = segment[at : at + size]
            if physical_offset < hot_from:
                if stop > known_to:
                    known_to = max(stop, _end_of(packed, offset - query.offset + records_max - 1) - start)
                    known = dict(CHECKSUM.iter_unpack(checksums.entries_between(start, stop, known_to, _CHECKSUMS_MAX)))
                if known.get(stop) != crc32(view) or not _is_of(view, topic_bytes, queue_id):
                    return None
            records.append(view)
        offset += 1
    return QueueRun(records, offset)


class PullRun(NamedTuple):
    """Records for the response to a pull."""

    pieces: list[bytes] | list[memoryview]  # buffers that hold the records, one after another
    messages: int  # number of records
    size_bytes: int
    next_offset: int  # queue offset to continue at
    last_place: int  # physical offset of the last record


def _read_pull_run(
    log: RunLog, checksums: Checksums, hot_from: int, packed: bytes, query: RunQuery
) -> tuple[list[memoryview], int, int, int, int] | None:
    """Read a run for a pull, as the fields of a `PullRun`.

    The reference returns a view for each record. The twin copies the records into one buffer, which is faster than one view each.
    """
    run = read_queue_run(log, checksums, hot_from, packed, query)
    if run is None:
        return None
    last_place = int.from_bytes(run.records[-1][PHYSICAL_OFFSET_AT:SYS_FLAG_AT]) if run.records else 0
    return run.records, len(run.records), sum(map(len, run.records)), run.next_offset, last_place


read_pull_run = twin("queue_run", _read_pull_run)


def ends_early(found: int, next_offset: int, packed: bytes, query: RunQuery, max_offset: int) -> bool:
    """Whether a run used up its entries before it found enough records, while the queue has more: the caller must read on."""
    is_used_up = next_offset == query.offset + len(packed) // ENTRY_BYTES
    return is_used_up and found < query.records_max and next_offset < max_offset


def _range_of(packed: bytes, query: RunQuery) -> tuple[int, int]:
    """Return where the first record of a run starts, and where its last one may end."""
    needed = packed if query.codes is not None else packed[: query.records_max * ENTRY_BYTES]
    ends = [physical_offset + size for physical_offset, size, _ in ENTRY.iter_unpack(needed or packed[:ENTRY_BYTES])]
    return ENTRY.unpack_from(packed)[0], max(ends)


def _end_of(packed: bytes, number: int) -> int:
    """Return where the record of entry `number` ends in the log; of the last entry, if there are fewer."""
    last = min(number, len(packed) // ENTRY_BYTES - 1)
    physical_offset, size, _ = ENTRY.unpack_from(packed, last * ENTRY_BYTES)
    return int(physical_offset + size)


def _is_of(record: memoryview, topic: bytes, queue_id: int) -> bool:
    """Whether a sound record belongs to this queue. Also False for records with a long topic or IPv6 hosts, which are rare."""
    magic, said_queue, sys_flag, body_bytes = _HEAD.unpack_from(record)
    if magic != MAGIC or said_queue != queue_id or sys_flag & _HOST_V6:
        return False
    topic_at = _HEAD.size + body_bytes
    return record[topic_at : topic_at + len(topic)].tobytes() == topic
