"""Read messages by queue, time, key or physical offset. A read returns exactly what was written, or nothing.

Queue and index entries have no checksum, so each is compared with the record that it points at: physical offset, size, queue,
queue offset and topic. Records are checked by their CRC, except those that this process wrote recently, which never left memory.
An entry that does not match the log is skipped and counted. It never hides the messages behind it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, PHYSICAL_OFFSET_AT, Record, body_crc32, decode_record
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6
from skyrocket.store.errors import UnreadableError
from skyrocket.store.index.index import Index
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.damage import is_filler
from skyrocket.store.queues.consume_queue import ENTRY, ENTRY_BYTES, ConsumeQueue
from skyrocket.store.queues.consume_queues import ConsumeQueues
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.read.message_query import MessageQuery
from skyrocket.store.read.queue_run import (
    RECORDS_PER_READ_MAX,
    PullRun,
    QueueRun,
    RunQuery,
    RunSources,
    TurnLog,
    ends_early,
    read_pull_run,
    read_queue_run,
    run_length,
)
from skyrocket.store.recovery.repair import QueueRepair

log = logging.getLogger(__name__)

READ_ATTEMPTS = 3  # of a record that the disk does not return; then it counts as damaged
NEAR_BYTES = 1024 * 1024  # behind a record that counts as damaged, the first failed attempt is enough: bad sectors lie together
UNREADABLE_MAX = 10_000  # records remembered as unreadable

_HEAD = struct.Struct(">iiiiiqqi")  # size, magic, CRC, queue id, flag, queue offset, physical offset, sys flag
_STAMPED_BYTES = 76  # of a record, up to the end of its store time, also with an IPv6 born host
_BODY_LENGTH_AT = 84  # with two IPv4 hosts; each IPv6 host adds 12
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class QueueMessages(NamedTuple):
    """Records of a queue, as views of the log, without copies."""

    records: list[memoryview]
    next_offset: int  # queue offset to continue at
    min_offset: int
    max_offset: int


class RecentRecords(NamedTuple):
    """The recently written part of the log's last segment. Its records never left memory."""

    segment: memoryview
    start: int  # log offset of the segment
    first: int  # log offset from which on records never left memory
    end: int  # the confirmed position: records from here on are not visible yet


def _record_views(segment: memoryview, start: int, first: int, end: int, offsets: Sequence[int]) -> list[memoryview | None]:
    """Return the records at offsets of a segment that starts at `start`.

    The result has None for an offset before `first` or behind `end`, and where no record with that physical offset starts.
    """
    head, end_at = _HEAD.unpack_from, min(len(segment), end - start)
    found: list[memoryview | None] = []
    for offset in offsets:
        at, view = offset - start, None
        if offset >= first and 0 <= at <= end_at - _HEAD.size:
            size, magic, _, _, _, _, place, _ = head(segment, at)
            if place == offset and magic in (MAGIC, MAGIC_V2) and _HEAD.size <= size <= end_at - at:
                view = segment[at : at + size]
        found.append(view)
    return found


record_views = twin("readdress", _record_views)


def to_pull_run(found: QueueMessages) -> PullRun:
    """Convert messages that were read one by one into a `PullRun`."""
    records = found.records
    last_place = _INT64.unpack_from(records[-1], PHYSICAL_OFFSET_AT)[0] if records else 0
    return PullRun(records, len(records), sum(map(len, records)), found.next_offset, last_place)


class Reading:
    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        deleted: DeletedTopics,
        index: Index | None,
        checksums: Checksums,
        repair: QueueRepair,
        confirmed: Callable[[], int],
    ) -> None:
        """`confirmed` returns the confirmed position: messages from there on are not visible."""
        self._log = log
        self._queues = queues
        self._deleted = deleted
        self._index = index
        self._checksums = checksums
        self._repair = repair
        self._confirmed = confirmed
        self._attempts: dict[int, int] = {}  # physical offset of a record that the disk did not return → how often
        self._unreadable_end = -NEAR_BYTES  # of the last one
        self.unreadable: dict[int, int] = {}  # physical offset → size of records that the disk does not return
        self._earliest: tuple[int, int] | None = None  # the log's start, and the store time of the message there
        self.awaits_repair: Callable[[int, int, int], bool] = lambda *_: False  # whether a lost message may come back
        self.damaged_reads = 0  # records or entries that were skipped because they are not what was written

    def set_opened_at(self, end: int) -> None:
        """Set the end of the log when the store was opened. Records before it were not written by this process."""
        self._log.set_opened_at(end)

    # --- by queue

    def messages(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        bytes_max: int = 4 * 1024 * 1024,
        wanted: frozenset[int] | None = None,
        passes: Callable[[memoryview], bool] | None = None,
        looked_at_max: int = RECORDS_PER_READ_MAX,
    ) -> QueueMessages:
        """Read up to `count` messages of a queue from `offset` on.

        `wanted` restricts them to tag hashes, and `passes` to records that it accepts. At most `looked_at_max` entries are
        examined. If one of these messages qualifies, at least one is returned, whatever `bytes_max` says.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return QueueMessages([], offset, 0, 0)
        offset = max(offset, queue.min_offset)
        if passes is None:
            run = self._run(queue, RunQuery(topic, queue_id, offset, count, bytes_max, wanted))
            if run is not None:
                return QueueMessages(run.records, run.next_offset, queue.min_offset, queue.max_offset)
        topic_bytes = topic.encode()
        records: list[memoryview] = []
        size_sum = 0
        looked_at = 0
        looked_at_max = min(looked_at_max, RECORDS_PER_READ_MAX)
        while len(records) < count and looked_at < looked_at_max:
            packed = queue.read(offset, min(count * 2, looked_at_max))
            if not packed:
                break
            for physical_offset, size, code in ENTRY.iter_unpack(packed):
                if wanted is None or code in wanted:
                    if records and (size_sum + size > bytes_max or len(records) == count):
                        return QueueMessages(records, offset, queue.min_offset, queue.max_offset)
                    try:
                        view = self._check_record(physical_offset, size, queue_id, offset, topic_bytes)
                        if view is None:
                            view = self._repair_entry(queue, topic, queue_id, offset)
                    except UnreadableError:
                        if records:
                            return QueueMessages(records, offset, queue.min_offset, queue.max_offset)
                        raise
                    if view is not None and (passes is None or passes(view)):
                        records.append(view)
                        size_sum += size
                offset += 1
                looked_at += 1
        return QueueMessages(records, offset, queue.min_offset, queue.max_offset)

    def _run(self, queue: ConsumeQueue, query: RunQuery) -> QueueRun | None:
        """Read everything that is asked for as one run; None when that is not possible."""
        packed = queue.read(query.offset, min(query.records_max * 2, RECORDS_PER_READ_MAX))
        run = read_queue_run(self._log, self._checksums, self._hot_from(), packed, query) if packed else None
        if run is None:
            return None
        return None if ends_early(len(run.records), run.next_offset, packed, query, queue.max_offset) else run

    def read_pull(self, queue: ConsumeQueue, query: RunQuery) -> PullRun:
        """Read what a pull asks for, or less if that makes one run. `query.offset` must lie within the queue."""
        packed = queue.read(query.offset, min(query.records_max * 2, RECORDS_PER_READ_MAX))
        if packed and query.codes is None:
            asked = packed[: query.records_max * ENTRY_BYTES]
            length = run_length(asked, self._hot_from())
            if length * ENTRY_BYTES < len(asked):
                query = query._replace(records_max=length)
        run = read_pull_run(self._log, self._checksums, self._hot_from(), packed, query) if packed else None
        if run is not None and not ends_early(run[1], run[3], packed, query, queue.max_offset):
            return PullRun._make(run)
        topic, queue_id, offset, count, bytes_max, codes = query
        return to_pull_run(self.messages(topic, queue_id, offset, count, bytes_max, codes))

    def turn_sources(self) -> RunSources:
        """Return the sources for several runs, to be used before anything is appended."""
        return RunSources(TurnLog(self._log), self._checksums, self._hot_from())

    def _repair_entry(self, queue: ConsumeQueue, topic: str, queue_id: int, offset: int) -> memoryview | None:
        """Repair a queue entry that does not match the log, and return its record; None when the message is lost."""
        entry = self._repair.repair(queue, topic, queue_id, offset)
        view = None
        if entry is not None:
            view = self._check_record(entry.physical_offset, entry.size, queue_id, offset, topic.encode())
        if view is None and self.awaits_repair(*self._place_between(queue, offset)):
            raise UnreadableError(f"Message {offset} of queue {queue_id} of {topic} is damaged here. Another node may have it.")
        return view

    def _place_between(self, queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
        """Return where an entry says that its message lies, and the range of the log in which the entries around it say so."""
        before = queue.entry(offset - 1) if offset > queue.min_offset else None
        behind = queue.entry(offset + 1)
        start = self._log.start if before is None else before.physical_offset + before.size
        stop = self._log.end if behind is None else behind.physical_offset - self._log.framing.header_bytes
        entry = queue.entry(offset)
        return (-1 if entry is None else entry.physical_offset), start, stop

    def _check_record(self, physical_offset: int, size: int, queue_id: int, queue_offset: int, topic: bytes) -> memoryview | None:
        """Return the record that a queue entry points at; None when it is another one, or damaged."""
        view = self._read_record(physical_offset, size) if size >= _BODY_LENGTH_AT + 4 else None
        if view is not None:
            said_size, magic, crc, said_queue, _, said_offset, place, sys_flag = _HEAD.unpack_from(view)
            is_the_one = (
                (said_size, said_queue, said_offset, place) == (size, queue_id, queue_offset, physical_offset)
                and magic in (MAGIC, MAGIC_V2)
                and _has_topic(view, magic, sys_flag, topic)
            )
            if is_the_one and (self._is_hot(physical_offset) or self._is_sound(physical_offset, view, crc, sys_flag)):
                return view
        self.damaged_reads += 1
        return None

    def _read_record(self, physical_offset: int, size: int) -> memoryview | None:
        """Return a record's bytes; None when the log does not have them, or the disk has failed to return them several times.

        Before that, raise UnreadableError: a disk may fail once and return the bytes later, and a message that is skipped is lost
        to its consumer.
        """
        if physical_offset in self.unreadable:
            return None
        try:
            return self._log.view(physical_offset, size)
        except UnreadableError as error:
            attempts = self._attempts.get(physical_offset, 0) + 1
            is_near = 0 <= physical_offset - self._unreadable_end < NEAR_BYTES
            if attempts < READ_ATTEMPTS and not is_near:
                if len(self._attempts) >= UNREADABLE_MAX:
                    self._attempts.clear()
                self._attempts[physical_offset] = attempts
                raise
            if len(self.unreadable) >= UNREADABLE_MAX:
                self.unreadable.clear()
            self._attempts.pop(physical_offset, None)
            self.unreadable[physical_offset] = size
            self._unreadable_end = physical_offset + size
            log.error("DAMAGE: %s The message there is skipped from now on.", error)
            return None

    def _hot_from(self) -> int:
        return self._log.hot_from

    def _is_hot(self, offset: int) -> bool:
        return offset >= self._hot_from()

    def _is_sound(self, offset: int, view: memoryview, crc: int, sys_flag: int) -> bool:
        """Whether a record matches the checksum over the whole record, or the CRC of its body if it has no checksum."""
        fits = self._checksums.matches(offset, view)
        if fits is not None:
            return fits
        body_at = _body_length_at(sys_flag) + _INT32.size
        (body_bytes,) = _INT32.unpack_from(view, body_at - _INT32.size)
        return bool(crc == body_crc32(view[body_at : body_at + body_bytes]))

    # --- by time

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, *, upper: bool = False) -> int:
        """Return the offset of the first message stored at or after `timestamp`; with `upper`, of the last one at or before it.

        For a time before the first message, return the minimum offset. For a time behind the last message, return the maximum
        offset, or with `upper` the offset of the last message.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.min_offset, queue.max_offset
        while low < high:
            middle = (low + high) // 2
            stored = self._store_timestamp_at(queue, middle)
            before = stored <= timestamp if upper else stored < timestamp
            low, high = (middle + 1, high) if before else (low, middle)
        return max(low - 1, queue.min_offset) if upper else low

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message in a queue; -1 when the queue does not have the offset."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or not queue.min_offset <= queue_offset < queue.max_offset:
            return -1
        return self._store_timestamp_at(queue, queue_offset)

    def _store_timestamp_at(self, queue: ConsumeQueue, queue_offset: int) -> int:
        """Return the store time of a message. A damaged entry gets the time of a later sound one, so that a search can go on.

        A whole segment may be lost: the distance to the next entry that is looked at doubles, up to the last one, so that a
        million damaged entries cost twenty reads.
        """
        step, last = 1, queue.max_offset - 1
        while queue_offset <= last:
            packed = queue.read(queue_offset, 1)
            physical_offset, size, _ = ENTRY.unpack(packed) if len(packed) == ENTRY_BYTES else (0, 0, 0)
            view = self._try_view(physical_offset, _STAMPED_BYTES) if size >= _BODY_LENGTH_AT else None
            if view is not None and _INT64.unpack_from(view, 28)[0] == physical_offset:
                v6 = _INT32.unpack_from(view, 36)[0] & BORN_HOST_V6
                return int(_INT64.unpack_from(view, 68 if v6 else 56)[0])
            queue_offset = queue_offset + step if queue_offset == last else min(queue_offset + step, last)
            step *= 2
        return 2**63 - 1

    def _try_view(self, offset: int, size: int) -> memoryview | None:
        """Return bytes of the log; None when the log does not have them, or the disk does not return them."""
        try:
            return self._log.view(offset, size)
        except UnreadableError:
            self.damaged_reads += 1
            return None

    # --- by physical offset

    def record_at(self, offset: int) -> Record | None:
        """Return the checked message at a physical offset; None when there is none."""
        found = self._find_at(offset)
        return None if found is None else found[1]

    def earliest_timestamp(self) -> int:
        """Return the store time of the oldest message; -1 when the log is empty.

        The disk is read once for each first segment: administrators ask every few seconds, and a cold read may take long.
        """
        start = self._log.start
        if self._earliest is None or self._earliest[0] != start:
            first = self.record_at(start + self._log.framing.header_bytes)
            if first is None:
                return -1
            self._earliest = (start, first.store_timestamp)
        return self._earliest[1]

    def forget_earliest(self) -> None:
        """The log begins anew, perhaps where it began before."""
        self._earliest = None

    def recent_records(self) -> RecentRecords:
        """Return the recently written part of the log, for `record_views`."""
        start, segment = self._log.hot_segment()
        return RecentRecords(segment, start, self._hot_from(), self._confirmed())

    def views_at(self, offsets: Sequence[int]) -> list[memoryview | None]:
        """Return the messages at many physical offsets; None where there is none.

        Recently written records are recognised by their first bytes alone, without a checksum. The caller decodes the records
        itself.
        """
        start, segment = self._log.hot_segment()  # most offsets lie there
        views = record_views(segment, start, self._hot_from(), self._confirmed(), offsets)
        return [self.view_at(offset) if view is None else view for offset, view in zip(offsets, views, strict=True)]

    def view_at(self, offset: int) -> memoryview | None:
        """Return the bytes of the checked message at a physical offset; None when there is none."""
        found = self._find_at(offset)
        return None if found is None else found[0]

    def _find_at(self, offset: int) -> tuple[memoryview, Record] | None:
        head = self._try_view(offset, _HEAD.size)
        if head is None or offset >= self._confirmed():
            return None
        size, magic, crc, _, _, _, place, sys_flag = _HEAD.unpack_from(head)
        view = self._try_view(offset, size) if magic in (MAGIC, MAGIC_V2) and place == offset else None
        if view is None:
            return None
        try:
            record = decode_record(view)
        except RecordError:
            self.damaged_reads += 1
            return None
        if is_filler(record):
            return None
        if not self._is_hot(offset) and not self._is_sound(offset, view, crc, sys_flag):
            self.damaged_reads += 1
            return None
        return view, record

    # --- by key

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int, count: int) -> list[memoryview]:
        """Return messages of a topic that have a key or unique key and were stored in this time range, newest first."""
        query = self.begin_query(topic, key, begin_ms, end_ms, count)
        while not query.step():
            pass
        return query.found

    def begin_query(self, topic: str, key: str, begin_ms: int, end_ms: int, count: int) -> MessageQuery:
        """Return a query that the caller carries out in steps."""
        visited = iter(()) if self._index is None else self._index.visit(topic, key, begin_ms, end_ms)
        deleted_before = self._deleted.position_of(topic)
        return MessageQuery(visited, self.view_at, topic, key, begin_ms, end_ms, count, deleted_before)


def _body_length_at(sys_flag: int) -> int:
    return _BODY_LENGTH_AT + (12 if sys_flag & BORN_HOST_V6 else 0) + (12 if sys_flag & STORE_HOST_V6 else 0)


def _has_topic(view: memoryview, magic: int, sys_flag: int, topic: bytes) -> bool:
    """Whether the record has this topic. Also False when the body's length does not fit into the record."""
    at = _body_length_at(sys_flag)
    if at + 4 > len(view):
        return False
    length_at = at + 4 + _INT32.unpack_from(view, at)[0]
    topic_at = length_at + (1 if magic == MAGIC else 2)
    if not at + 4 <= length_at <= len(view) - (topic_at - length_at) - len(topic):
        return False
    return int.from_bytes(view[length_at:topic_at]) == len(topic) and view[topic_at : topic_at + len(topic)] == topic
