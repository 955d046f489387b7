"""Recovery when a store is opened: find the end of the log, and bring queues, index and checksums into line with it.

After a clean stop (no abort file), the checkpoint says where the last message lies, and only that is read. After a crash, the log
is scanned from the checkpoint on:

    ... sound | record | damaged | record | torn ...
              ^ dispatch end                ^ cut here: nothing sound follows

A damaged range with something sound behind it is set aside. Queue entries and index keys of all scanned messages are written
again, and what queues and index have beyond them is deleted. The result depends only on what is on disk, so recovery can be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skyrocket.protocol.crc import crc32
from skyrocket.protocol.message.record import FIXED_BYTES_MIN
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.files import File, Files
from skyrocket.store.index.index import Index
from skyrocket.store.log.checksum_blocks import ENTRY
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.damage import is_filler, set_aside, set_aside_offsets
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.log.readable import read_readable, readable_record, readable_view
from skyrocket.store.log.record_run import read_run
from skyrocket.store.log.scan import (
    BLANK,
    Blank,
    DamagedRange,
    FoundRecord,
    LogEnd,
    LogItem,
    item_at,
    last_byte_set,
    looks_torn,
)
from skyrocket.store.log.segments import OFFSET_MAX
from skyrocket.store.message import UNQUEUED, DispatchFields, dispatch_request_of
from skyrocket.store.queues.consume_queue import QueueEntry
from skyrocket.store.queues.consume_queues import ConsumeQueues, QueueKey
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.recovery.checkpoint import Checkpoint
from skyrocket.store.recovery.recovery_result import RecoveryResult, SetAsideRange
from skyrocket.store.recovery.scanned_run import RECORDS_AT_ONCE, ScannedRun, join_runs, pack_run
from skyrocket.store.retention.expired_files import ExpiredFile

_SAFETY_MS = 3_000  # Apache starts this much before the timestamps of its checkpoint


class Recovery:
    def __init__(
        self,
        *,
        files: Files,
        log: CommitLog,
        queues: ConsumeQueues,
        deleted: DeletedTopics,
        index: Index | None,
        checksums: Checksums,
        damaged: str,
        delays_ms: tuple[int, ...],
        begin: Callable[[Checkpoint], None],
    ) -> None:
        """`begin` is called before anything is changed, with the checkpoint that must hold until recovery is done."""
        self._files = files
        self._log = log
        self._queues = queues
        self._deleted = deleted
        self._index = index
        self._checksums = checksums
        self._damaged = damaged
        self._delays_ms = delays_ms
        self._begin = begin
        self._framing = log.framing
        self._seen: dict[
            tuple[str, int], tuple[int, int]
        ] = {}  # queues that are written again, and where their last messages lie
        self._shapes = ShapeCache()
        self._repeated = 0
        self._safe_end = 0  # the log was on disk up to here
        self._trusted_end = 0  # queue entries of messages before this offset are certainly on disk
        self._visible_end = OFFSET_MAX  # messages from here on stay out of the queues
        self._hidden: dict[tuple[str, int], int] = {}  # of these messages: the next free offset of each queue

    def run(
        self, checkpoint: Checkpoint, *, crashed: bool, is_ours: bool = False, visible_end: int | None = None
    ) -> RecoveryResult:
        """Recover. `is_ours` says that no other program has written to the store since the checkpoint was written.

        Messages from `visible_end` on stay out of queues and index: a group has not confirmed them yet.
        """
        self._safe_end = checkpoint.safe_end or 0
        self._visible_end = OFFSET_MAX if visible_end is None else visible_end
        start = self._start(checkpoint, crashed, is_ours)
        if not crashed and not self._ends_cleanly(start):
            crashed = True  # the log does not end as after a clean stop
            start = self._log.start
        self._checksums.load(self._safe_end, crashed=crashed, remember_beyond=is_ours and checkpoint.is_ours)
        done = RecoveryResult(crashed, start, safe_end=self._safe_end)
        self._trusted_end = start
        if crashed:
            self._begin(_restart_at(checkpoint, start))
        self._log.end = self._log.segments.stop  # until the end is found: queue entries are compared with the log
        all_fit = self._queues.load(self._entry_is_sound if crashed else None)
        if self._index is not None:
            self._index.load()
            if crashed:
                self._index.rebuild(start)
        missing = not all_fit or self._queues_are_missing(checkpoint, crashed) or self._index_is_missing(checkpoint)
        if missing or not crashed:
            self._begin(_restart_at(checkpoint, self._log.start) if missing else checkpoint)
        self._expire_deleted()
        if missing:
            self._dispatch(self._walk_again(self._log.start, start), crashed)
        if crashed:
            self._dispatch(self._walk_after_crash(start, done), crashed)
        else:
            self._dispatch(self._walk_clean(start, done), crashed)
        self._log.set_end(done.end)
        done.end = self._log.end
        if crashed:
            self._checksums.cut(done.end)
        done.visible_end = min(done.end, self._visible_end)
        if done.end < self._safe_end or not checkpoint.is_ours or done.visible_end < done.end:
            self._forget_beyond(done.visible_end)
        if self._index is not None and self._index.last_offset >= done.visible_end:
            self._index.rebuild(done.visible_end)
        done.repeated = self._repeated if self._framing.header_bytes else 0
        self._reserve_hidden()
        self._remove_files(self._queues.expire(self._log.start))
        self._deleted.shorten(done.end)
        self._log.set_aside_offsets = set_aside_offsets(self._files, self._damaged)
        return done

    def _expire_deleted(self) -> None:
        """Drop queue entries of deleted topics: another program may have written them, or a power failure undid their removal."""
        self._remove_files(self._queues.expire_deleted(self._deleted.positions))

    def _remove_files(self, expired: list[ExpiredFile]) -> None:
        for path, open_file in expired:
            if open_file is not None:
                open_file.close()
            self._files.remove(path)

    # --- where to start

    def _start(self, checkpoint: Checkpoint, crashed: bool, is_ours: bool) -> int:
        """Return a log offset before which every message is in queues and index."""
        if not self._log.segments.starts:
            return 0
        if checkpoint.dispatch_end is not None:
            known = is_ours and self._log.start <= checkpoint.dispatch_end <= self._log.segments.stop
            return checkpoint.dispatch_end if known or self._is_boundary(checkpoint.dispatch_end) else self._log.start
        if crashed:
            return self._segment_before(min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - _SAFETY_MS)
        if self._is_record(checkpoint.queue_physical_offset):
            return checkpoint.queue_physical_offset - self._framing.header_bytes
        return self._segment_before(2**63)  # checkpoints of Apache before 5.4 have no offset

    def _is_boundary(self, offset: int) -> bool:
        start = self._log.segments.start_of(offset)
        if start is None:
            return offset == self._log.segments.stop
        at = offset - start
        view = readable_record(self._log.segments.file(start), at, self._framing)
        is_frame = self._framing.record_at(view, start, at) is not None or self._framing.is_blank(view, at)
        return is_frame or not any(view[at : at + 8])

    def _is_record(self, offset: int) -> bool:
        """Whether a sound record lies here. Zeros do not count: Apache's fields have no CRC, and zeros are not always the end."""
        offset -= self._framing.header_bytes
        start = self._log.segments.start_of(offset)
        if start is None:
            return False
        view = readable_record(self._log.segments.file(start), offset - start, self._framing)
        return self._framing.record_at(view, start, offset - start) is not None

    def _segment_before(self, timestamp: int) -> int:
        """Return the last segment whose first message was stored at or before that time, as Apache does with its checkpoint."""
        for start in reversed(self._log.segments.starts):
            found = self._framing.record_at(readable_record(self._log.segments.file(start), 0, self._framing), start, 0)
            if found is not None and found.record.store_timestamp <= timestamp:
                return start
        return self._log.start

    def _queues_are_missing(self, checkpoint: Checkpoint, crashed: bool) -> bool:
        """Whether files of a queue were deleted."""
        if checkpoint.queue_count is None or checkpoint.entry_count is None:
            return len(self._queues) == 0 and self._log.end > self._log.start
        queue_count, entry_count = self._queues.count_in(self._deleted.moved_directories())  # the checkpoint may count them
        if len(self._queues) + queue_count < checkpoint.queue_count:
            return True
        return not crashed and self._queues.entry_count + entry_count < checkpoint.entry_count

    def _index_is_missing(self, checkpoint: Checkpoint) -> bool:
        return self._index is not None and checkpoint.is_ours and checkpoint.index_timestamp > 0 and self._index.last_offset < 0

    # --- the log

    def _ends_cleanly(self, start: int) -> bool:
        """Whether sound records follow each other from `start` to unwritten space."""
        done = RecoveryResult(False, start)
        for _ in self._walk_clean(start, done):
            pass
        segment_start = self._log.segments.start_of(done.end)
        if segment_start is None:
            return True
        return not any(read_readable(self._log.segments.file(segment_start), done.end - segment_start, BLANK.size))

    def _walk_clean(self, start: int, done: RecoveryResult) -> Iterator[ScannedRun]:
        """Yield the records after a clean stop, without reading what lies behind the last one."""
        segments = self._log.segments
        done.end = start
        for segment_start in [s for s in segments.starts if s + segments.segment_bytes > start]:
            if done.end < segment_start:
                return
            file = segments.file(segment_start)
            while (item := self._next_item(file, segment_start, done.end - segment_start)) is not None:
                self._note(item, done)
                if isinstance(item, Blank):
                    break
                yield self._run_of(item, file.view(), segment_start)

    def _walk_after_crash(self, start: int, done: RecoveryResult) -> Iterator[ScannedRun]:
        """Yield every sound record after a crash. Set damage aside on the way, and cut off the torn tail."""
        segments = self._log.segments
        pending: list[DamagedRange] = []  # damage if something sound follows; otherwise the torn tail
        done.end = start
        for segment_start in [s for s in segments.starts if s + segments.segment_bytes > start]:
            file, at = segments.file(segment_start), max(0, start - segment_start)
            view = readable_view(file, at)
            for item in self._scan(view, segment_start, at, file.data_end(at)):
                if isinstance(item, LogEnd):
                    pending.append(DamagedRange(item.offset, segment_start + segments.segment_bytes - item.offset))
                elif isinstance(item, DamagedRange):
                    pending.append(item)
                elif pending and not self._log.keeps_behind(pending[0].offset, self._safe_end):
                    self._cut_tail(done)
                    return
                elif not isinstance(item, Blank) or not pending or self._sound_follows(segment_start):
                    self._set_aside(pending, done)
                    self._note(item, done)
                    if not isinstance(item, Blank):
                        yield item if isinstance(item, ScannedRun) else self._run_of(item, view, segment_start)
        self._keep_what_was_safe(done)
        self._cut_tail(done)

    def _scan(
        self, view: memoryview, segment_start: int, at: int, data_end: int, *, is_trusted: bool = False
    ) -> Iterator[ScannedRun | LogItem]:
        """Yield what lies in a segment from `at` on: runs of ordinary records, and every other item. Holes follow `data_end`.

        Unless the segment is trusted, a record that is not what was written, or does not follow the one before it, is damaged.
        """
        header_bytes = self._framing.header_bytes
        while at < len(view):
            run = self._read_run(view, segment_start, at, is_trusted)
            if run is not None:
                yield run
                at = run.end - segment_start
                continue
            item = item_at(view, segment_start, at, framing=self._framing, data_end=data_end)
            if isinstance(item, FoundRecord) and not is_trusted and not self._belongs_here(item, view, segment_start):
                item = DamagedRange(item.offset - header_bytes, item.size + header_bytes)
            yield item
            if isinstance(item, LogEnd | Blank):
                return
            at = item.offset + item.size - segment_start

    def _read_run(self, view: memoryview, segment_start: int, at: int, is_trusted: bool) -> ScannedRun | None:
        """Return the ordinary records from `at` on that are what was written; None when there are none.

        In the log of a group there are none: each entry is compared with the one before it.
        """
        if self._framing.header_bytes:
            return None
        dispatches = read_run(view, segment_start, at, RECORDS_AT_ONCE, self._shapes)
        if not dispatches:
            return None
        packed = pack_run(dispatches, view, segment_start)
        count = len(dispatches) if is_trusted else self._checksums.count_equal(segment_start, packed)
        return ScannedRun(segment_start, dispatches[:count], packed[: count * ENTRY.size]) if count else None

    def _run_of(self, found: FoundRecord, view: memoryview, segment_start: int) -> ScannedRun:
        """Return a run of one record, which may be a filler."""
        at = found.offset - segment_start
        packed = ENTRY.pack(at + found.size, crc32(view[at : at + found.size]))
        dispatches: list[DispatchFields] = []
        if not is_filler(found.record):
            dispatches.append(dispatch_request_of(found.record, found.size, self._delays_ms))
        return ScannedRun(segment_start, dispatches, packed)

    def _walk_again(self, start: int, end: int) -> Iterator[ScannedRun]:
        """Yield the records of a part of the log whose queues or index are missing."""
        segments = self._log.segments
        for segment_start in [s for s in segments.starts if s < end and s + segments.segment_bytes > start]:
            at = max(0, start - segment_start)
            view = readable_view(segments.file(segment_start), at)[: end - segment_start]
            for item in self._scan(view, segment_start, at, len(view), is_trusted=True):
                if isinstance(item, ScannedRun):
                    yield item
                elif isinstance(item, FoundRecord):
                    yield self._run_of(item, view, segment_start)

    def _keep_what_was_safe(self, done: RecoveryResult) -> None:
        """Treat an unreadable end of the log before the safe end as damage: it was on disk, so it is no torn tail."""
        segments = self._log.segments
        safe_end = max(self._safe_end, self._log.protected_end)
        while done.end < min(safe_end, segments.stop):
            border = done.end - done.end % segments.segment_bytes + segments.segment_bytes
            lost = DamagedRange(done.end, min(safe_end, border) - done.end)
            if not self._log.can_fill(lost.offset, lost.size):
                done.unfilled.append(lost)
                return
            self._set_aside([lost], done)
            done.end += lost.size

    def _belongs_here(self, found: FoundRecord, view: memoryview, segment_start: int) -> bool:
        """Whether a record is what was written, and follows the one before it."""
        return not self._is_damaged(found, view, segment_start) and self._log.follows(found, view, segment_start)

    def _is_damaged(self, found: FoundRecord, view: memoryview, segment_start: int) -> bool:
        if is_filler(found.record):
            return False  # the checksum there may be that of the record that it replaced
        at = found.offset - segment_start
        fits = self._checksums.matches(found.offset, view[at : at + found.size])
        if fits is None:
            return found.offset >= self._safe_end and looks_torn(view, at, found.size, found.record)
        return not fits

    def _sound_follows(self, segment_start: int) -> bool:
        """Whether the next segment starts with a sound record. A blank behind damage does not prove that anything follows."""
        following = segment_start + self._log.segments.segment_bytes
        if self._log.segments.start_of(following) is None:
            return False
        view = readable_record(self._log.segments.file(following), 0, self._framing)
        found = self._framing.record_at(view, following, 0)
        return found is not None and not self._is_damaged(found, view, following)

    def _next_item(self, file: File, segment_start: int, at: int) -> FoundRecord | Blank | None:
        view = readable_record(file, at, self._framing)
        found = self._framing.record_at(view, segment_start, at)
        if found is None and self._framing.is_blank(view, at):
            return Blank(segment_start + at, len(view) - at)
        return found

    def _note(self, item: ScannedRun | FoundRecord | Blank, done: RecoveryResult) -> None:
        if isinstance(item, ScannedRun):
            done.end = item.end
            done.messages += len(item.dispatches)
            _, _, _, done.last_offset, _, _, done.last_timestamp, _, _ = item.dispatches[-1]
            done.visible_timestamp = done.last_timestamp  # only the log of a group hides messages, and it has no runs
            return
        done.end = item.offset + item.size
        if isinstance(item, FoundRecord):
            done.messages += 1
            if item.offset < self._visible_end:
                done.last_offset, done.visible_timestamp = item.offset, item.record.store_timestamp
            done.last_timestamp = item.record.store_timestamp

    def _set_aside(self, pending: list[DamagedRange], done: RecoveryResult) -> None:
        for damaged in _merge_ranges(pending, self._log.segments.segment_bytes):
            file = self._log.segments.file(damaged.offset - damaged.offset % self._log.segments.segment_bytes)
            filler = self._log.make_fillers(damaged.offset, damaged.size, done.last_timestamp)
            kept = set_aside(self._files, self._damaged, file, damaged.offset, damaged.size, filler)
            done.set_aside.append(SetAsideRange(damaged.offset, damaged.size, kept))
        pending.clear()

    def _cut_tail(self, done: RecoveryResult) -> None:
        """Write zeros behind the end, so that old bytes are never read behind new records."""
        segment_start = self._log.segments.start_of(done.end)
        if segment_start is None:
            return
        file = self._log.segments.file(segment_start)
        at = done.end - segment_start
        torn = last_byte_set(readable_view(file, at)[: file.data_end(at)], at) - at
        if torn:
            file.write(at, bytes(torn))
            file.sync()
            done.cut_bytes = torn

    # --- queues and index

    def _entry_is_sound(self, _key: QueueKey, _queue_offset: int, entry: QueueEntry) -> bool:
        """Whether a queue entry was certainly on disk. Entries behind may have holes, and are all written again."""
        return entry.physical_offset < self._trusted_end

    def _dispatch(self, runs: Iterator[ScannedRun], crashed: bool) -> None:
        """Write queue entries, index keys and checksums of scanned records."""
        for run in join_runs(runs):
            self._checksums.complete(run.segment_start, run.checksums)
            dispatches = self._keep_visible([one for one in run.dispatches if not self._deleted.covers(one[0], one[3])])
            if not dispatches:
                continue
            if crashed:
                dispatches = [one for one in dispatches if one[8] & TRANSACTION_MASK in UNQUEUED or self._goes_on(one)]
            self._queues.put(dispatches)
            self._queues.write_late(self._queues.late_count)
            if self._index is not None:
                self._index.put(dispatches)
                self._index.write_late()

    def _goes_on(self, dispatch: DispatchFields) -> bool:
        """Whether a message may have its queue offset. One that is damaged in a way that no CRC shows may have any.

        Between two messages of a queue, at most so many are lost as fit between them in the log.
        """
        topic, queue_id, queue_offset, physical_offset, _, _, _, _, _ = dispatch
        key = (topic, queue_id)
        last = self._seen.get(key)
        if last is None:
            self._queues.truncate(key, queue_offset)
        else:
            lost = queue_offset - last[0] - 1
            self._repeated += lost < 0
            if lost > (physical_offset - last[1]) // FIXED_BYTES_MIN:
                return False
        if last is None or queue_offset > last[0]:
            self._seen[key] = (queue_offset, physical_offset)
        return True

    def _keep_visible(self, dispatches: list[DispatchFields]) -> list[DispatchFields]:
        """Return the messages before the visible end. Those behind it only take their queue offsets."""
        if not dispatches or dispatches[-1][3] < self._visible_end:
            return dispatches
        for topic, queue_id, queue_offset, physical_offset, _, _, _, _, sys_flag in dispatches:
            if sys_flag & TRANSACTION_MASK not in UNQUEUED and physical_offset >= self._visible_end:
                key = (topic, queue_id)
                self._hidden[key] = max(self._hidden.get(key, 0), queue_offset + 1)
        return [one for one in dispatches if one[3] < self._visible_end]

    def _reserve_hidden(self) -> None:
        """No new message gets the queue offset of one that the group may still confirm."""
        for key, following in self._hidden.items():
            self._queues.reserve_offsets({key: max(self._queues.next_offset(key), following)})

    def _forget_beyond(self, end: int) -> None:
        """Delete queue entries whose message was cut off with the tail."""
        for _, queue in self._queues:
            last = queue.entry(queue.max_offset - 1)
            while last is not None and last.physical_offset >= end:
                queue.truncate(queue.max_offset - 1)
                last = queue.entry(queue.max_offset - 1)


def _restart_at(checkpoint: Checkpoint, start: int) -> Checkpoint:
    """Return the checkpoint for a crash during recovery: the next recovery must not start later than `start`."""
    if checkpoint.dispatch_end is not None and checkpoint.dispatch_end <= start:
        return checkpoint
    return checkpoint._replace(
        safe_end=checkpoint.safe_end or 0,
        dispatch_end=start,
        queue_count=checkpoint.queue_count or 0,
        entry_count=checkpoint.entry_count or 0,
    )


def _merge_ranges(ranges: list[DamagedRange], segment_bytes: int) -> list[DamagedRange]:
    """Merge adjacent ranges, but never across the end of a segment."""
    merged: list[DamagedRange] = []
    for damaged in ranges:
        if merged:
            last = merged[-1]
            touches = last.offset + last.size == damaged.offset
            if touches and damaged.offset % segment_bytes:
                merged[-1] = DamagedRange(last.offset, last.size + damaged.size)
                continue
        merged.append(damaged)
    return merged
