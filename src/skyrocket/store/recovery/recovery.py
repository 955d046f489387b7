"""What a store does when it is opened: find the end of the log, and bring queues, index and checksums into line with it.

After a clean stop (no abort file) the checkpoint says where the last message lies, and that is all that is read. After a crash
the log is walked from the checkpoint on:

    ... sound | record | damaged | record | torn ...
              ^ dispatch end                ^ cut here: nothing sound follows

A damaged range with something sound behind it is set aside. Queue entries and index keys of everything walked over are written
anew; what they had beyond is forgotten. All of it depends only on what is on disk, so recovering twice equals once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import NamedTuple

from skyrocket.store.files import Files
from skyrocket.store.index.index import Index
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.damage import is_filler, set_aside
from skyrocket.store.log.scan import (
    Blank,
    DamagedRange,
    FoundRecord,
    LogEnd,
    is_blank,
    last_byte_set,
    looks_torn,
    record_at,
    walk_segment,
)
from skyrocket.store.message import dispatch_request_of
from skyrocket.store.queues.consume_queue import QueueEntry
from skyrocket.store.queues.consume_queues import ConsumeQueues, QueueKey
from skyrocket.store.recovery.checkpoint import Checkpoint

DISPATCHES_AT_ONCE = 4096
_SAFETY_MS = 3_000  # Apache's own distrust of timestamps in its checkpoint


class SetAsideRange(NamedTuple):
    """A damaged range of the log, and where its bytes are kept."""

    offset: int
    size: int
    kept: str


@dataclass(slots=True)
class RecoveryResult:
    """What recovery found and did. `sentences` tells it to a person."""

    after_crash: bool
    walked_from: int
    end: int = 0
    messages: int = 0  # walked over
    cut_bytes: int = 0  # torn, behind the end
    set_aside: list[SetAsideRange] = field(default_factory=list)
    last_timestamp: int = 0  # store time of the last message, 0 in an empty log
    last_offset: int = 0
    safe_end: int = 0  # what the checkpoint knew to be on disk; 0 when it did not say

    def sentences(self) -> list[str]:
        told = []
        if self.after_crash:
            told.append(f"The store was not closed; {self.messages} messages were read again, from {self.walked_from} on.")
        if self.cut_bytes:
            told.append(f"A torn tail of {self.cut_bytes} bytes at {self.end} was cut off: it was never acknowledged.")
        for damage in self.set_aside:
            flushed = not self.safe_end or damage.offset < self.safe_end
            what = "DAMAGE" if flushed else "Lost in the crash, never flushed"
            told.append(
                f"{what}: {damage.size} bytes of the log at {damage.offset} cannot be read. They are kept in {damage.kept}."
            )
        return told


class Recovery:
    def __init__(
        self,
        files: Files,
        log: CommitLog,
        queues: ConsumeQueues,
        index: Index | None,
        checksums: Checksums,
        damaged: str,
        delays_ms: tuple[int, ...],
        begin: Callable[[Checkpoint], None],
    ) -> None:
        """`begin` is called before anything is changed, with what the checkpoint must say until all of it is done."""
        self._files = files
        self._log = log
        self._queues = queues
        self._index = index
        self._checksums = checksums
        self._damaged = damaged
        self._delays_ms = delays_ms
        self._begin = begin
        self._seen: set[tuple[str, int]] = set()
        self._safe_end = 0  # everything in the log before this was on disk
        self._believed = 0  # queue entries of messages before this offset are on disk for sure

    def run(self, checkpoint: Checkpoint, *, crashed: bool, is_ours: bool = False) -> RecoveryResult:
        """`is_ours`: since the checkpoint was written, no other program has written to this store."""
        self._safe_end = checkpoint.safe_end or 0
        start = self._start(checkpoint, crashed, is_ours)
        if not crashed and not self._ends_cleanly(start):
            crashed = True  # whatever stopped it, this is not how a clean stop leaves a log
            start = self._log.start
        self._checksums.load(self._safe_end, crashed=crashed, remember_beyond=is_ours and checkpoint.is_ours)
        done = RecoveryResult(crashed, start, safe_end=self._safe_end)
        self._believed = start
        if crashed:
            self._begin(_restart_at(checkpoint, start))
        self._log.end = self._log.segments.stop  # until it is found: queue entries are held against the log
        all_fit = self._queues.load(self._entry_is_sound if crashed else None)
        if self._index is not None:
            self._index.load()
            if crashed:
                self._index.rebuild(start)
        missing = not all_fit or self._queues_are_missing(checkpoint, crashed) or self._index_is_missing(checkpoint)
        if missing or not crashed:
            self._begin(_restart_at(checkpoint, self._log.start) if missing else checkpoint)
        if missing:
            self._dispatch(self._records(self._log.start, start), crashed)
        if crashed:
            self._dispatch(self._walk(start, done), crashed)
        else:
            self._dispatch(self._step(start, done), crashed)
        self._log.set_end(done.end)
        if crashed:
            self._checksums.cut(done.end)
        if done.end < self._safe_end or not checkpoint.is_ours:
            self._forget_beyond(done.end)
        if self._index is not None and self._index.last_offset >= done.end:
            self._index.rebuild(done.end)
        self._queues.expire(self._log.start)
        return done

    # --- where to start

    def _start(self, checkpoint: Checkpoint, crashed: bool, is_ours: bool) -> int:
        """A place from which walking the log finds everything that may not be in queues and index."""
        if not self._log.segments.starts:
            return 0
        if checkpoint.dispatch_end is not None:
            known = is_ours and self._log.start <= checkpoint.dispatch_end <= self._log.segments.stop
            return checkpoint.dispatch_end if known or self._is_boundary(checkpoint.dispatch_end) else self._log.start
        if crashed:
            return self._segment_before(min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - _SAFETY_MS)
        if self._is_record(checkpoint.queue_physical_offset):
            return checkpoint.queue_physical_offset
        return self._segment_before(2**63)  # Apache before 5.4 has no offset in its checkpoint

    def _is_boundary(self, offset: int) -> bool:
        start = self._log.segments.start_of(offset)
        if start is None:
            return offset == self._log.segments.stop
        view = self._log.segments.file(start).view()
        at = offset - start
        return record_at(view, start, at) is not None or is_blank(view, at) or not any(view[at : at + 8])

    def _is_record(self, offset: int) -> bool:
        """Not every boundary: nothing protects Apache's fields, and zeros are in many places that are not the end."""
        start = self._log.segments.start_of(offset)
        return start is not None and record_at(self._log.segments.file(start).view(), start, offset - start) is not None

    def _segment_before(self, timestamp: int) -> int:
        """The last segment whose first message was stored at or before that time: Apache's rule for its own checkpoint."""
        for start in reversed(self._log.segments.starts):
            found = record_at(self._log.segments.file(start).view(), start, 0)
            if found is not None and found.record.store_timestamp <= timestamp:
                return start
        return self._log.start

    def _queues_are_missing(self, checkpoint: Checkpoint, crashed: bool) -> bool:
        """Whether someone took a queue's files away."""
        if checkpoint.queue_count is None or checkpoint.entry_count is None:
            return len(self._queues) == 0 and self._log.end > self._log.start
        if len(self._queues) < checkpoint.queue_count:
            return True
        return not crashed and self._queues.entry_count < checkpoint.entry_count

    def _index_is_missing(self, checkpoint: Checkpoint) -> bool:
        return self._index is not None and checkpoint.is_ours and checkpoint.index_timestamp > 0 and self._index.last_offset < 0

    # --- the log

    def _ends_cleanly(self, start: int) -> bool:
        """Whether sound records go from `start` to where there is nothing."""
        done = RecoveryResult(False, start)
        for _ in self._step(start, done):
            pass
        segment_start = self._log.segments.start_of(done.end)
        return segment_start is None or not any(self._log.segments.file(segment_start).view()[done.end - segment_start :][:8])

    def _step(self, start: int, done: RecoveryResult) -> Iterator[FoundRecord]:
        """After a clean stop: from record to record, without looking at what lies behind the last."""
        segments = self._log.segments
        done.end = start
        for segment_start in [s for s in segments.starts if s + segments.segment_bytes > start]:
            if done.end < segment_start:
                return
            view = segments.file(segment_start).view()
            while (item := _next_item(view, segment_start, done.end - segment_start)) is not None:
                self._note(item, done)
                if isinstance(item, Blank):
                    break
                yield item

    def _walk(self, start: int, done: RecoveryResult) -> Iterator[FoundRecord]:
        """After a crash: every sound record to the end. Damage is set aside on the way, and what is torn is cut."""
        segments = self._log.segments
        pending: list[DamagedRange] = []  # damage if something sound follows; torn if not
        done.end = start
        for segment_start in [s for s in segments.starts if s + segments.segment_bytes > start]:
            view = segments.file(segment_start).view()
            for item in walk_segment(view, segment_start, max(0, start - segment_start)):
                if isinstance(item, LogEnd):
                    pending.append(DamagedRange(item.offset, segment_start + segments.segment_bytes - item.offset))
                elif isinstance(item, DamagedRange):
                    pending.append(item)
                elif isinstance(item, FoundRecord) and self._is_damaged(item, view, segment_start):
                    pending.append(DamagedRange(item.offset, item.size))
                elif isinstance(item, FoundRecord) or not pending or self._sound_follows(segment_start):
                    self._set_aside(pending, done)
                    self._note(item, done)
                    if isinstance(item, FoundRecord):
                        yield item
        self._keep_what_was_safe(done)
        self._cut_tail(done)

    def _keep_what_was_safe(self, done: RecoveryResult) -> None:
        """Before the safe end everything was on disk: if it cannot be read now, it is no torn tail but damage at the end."""
        segments = self._log.segments
        while done.end < min(self._safe_end, segments.stop):
            border = done.end - done.end % segments.segment_bytes + segments.segment_bytes
            lost = DamagedRange(done.end, min(self._safe_end, border) - done.end)
            self._set_aside([lost], done)
            done.end += lost.size

    def _is_damaged(self, found: FoundRecord, view: memoryview, segment_start: int) -> bool:
        if is_filler(found.record):
            return False  # it lies where something else was
        at = found.offset - segment_start
        fits = self._checksums.matches(found.offset, view[at : at + found.size])
        if fits is None:
            return found.offset >= self._safe_end and looks_torn(view, at, found.size, found.record)
        return not fits

    def _sound_follows(self, segment_start: int) -> bool:
        """Whether the next segment starts with a record: a blank behind damage is no proof that anything follows."""
        following = segment_start + self._log.segments.segment_bytes
        if self._log.segments.start_of(following) is None:
            return False
        view = self._log.segments.file(following).view()
        found = record_at(view, following, 0)
        return found is not None and not self._is_damaged(found, view, following)

    def _note(self, item: FoundRecord | Blank, done: RecoveryResult) -> None:
        done.end = item.offset + item.size
        if isinstance(item, FoundRecord):
            done.messages += 1
            done.last_offset = item.offset
            done.last_timestamp = item.record.store_timestamp

    def _set_aside(self, pending: list[DamagedRange], done: RecoveryResult) -> None:
        for damaged in _merge_ranges(pending, self._log.segments.segment_bytes):
            file = self._log.segments.file(damaged.offset - damaged.offset % self._log.segments.segment_bytes)
            kept = set_aside(self._files, self._damaged, file, damaged.offset, damaged.size, done.last_timestamp)
            done.set_aside.append(SetAsideRange(damaged.offset, damaged.size, kept))
        pending.clear()

    def _cut_tail(self, done: RecoveryResult) -> None:
        """Leave zeros behind the end: old bytes there must not come back to life behind new ones."""
        segment_start = self._log.segments.start_of(done.end)
        if segment_start is None:
            return
        file = self._log.segments.file(segment_start)
        at = done.end - segment_start
        torn = last_byte_set(file.view(), at) - at
        if torn:
            file.write(at, bytes(torn))
            file.sync()
            done.cut_bytes = torn

    # --- queues and index

    def _entry_is_sound(self, _key: QueueKey, _queue_offset: int, entry: QueueEntry) -> bool:
        """Whether a queue entry was on disk for sure. Those behind may have holes, and all are written again."""
        return entry.physical_offset < self._believed

    def _dispatch(self, records: Iterator[FoundRecord], crashed: bool) -> None:
        """Queue entries, index keys and checksums for records that were walked over."""
        while turn := list(islice(records, DISPATCHES_AT_ONCE)):
            self._complete_checksums(turn)
            dispatches = [
                dispatch_request_of(item.record, item.size, self._delays_ms) for item in turn if not is_filler(item.record)
            ]
            if crashed:
                for dispatch in dispatches:
                    key = (dispatch.topic, dispatch.queue_id)
                    if key not in self._seen and dispatch.is_queued:
                        self._seen.add(key)
                        self._queues.truncate(key, dispatch.queue_offset)
            self._queues.put(dispatches)
            if self._index is not None:
                self._index.put(dispatches)

    def _complete_checksums(self, turn: list[FoundRecord]) -> None:
        for segment_start, some in groupby(turn, lambda item: item.offset - item.offset % self._log.segments.segment_bytes):
            view = self._log.segments.file(segment_start).view()
            self._checksums.complete(segment_start, view, [(item.offset - segment_start, item.size) for item in some])

    def _forget_beyond(self, end: int) -> None:
        """Queue entries whose message was cut off with the tail."""
        for _, queue in self._queues:
            last = queue.entry(queue.max_offset - 1)
            while last is not None and last.physical_offset >= end:
                queue.truncate(queue.max_offset - 1)
                last = queue.entry(queue.max_offset - 1)

    def _records(self, start: int, end: int) -> Iterator[FoundRecord]:
        segments = self._log.segments
        for segment_start in [s for s in segments.starts if s < end and s + segments.segment_bytes > start]:
            view = segments.file(segment_start).view()
            for item in walk_segment(view[: end - segment_start], segment_start, max(0, start - segment_start)):
                if isinstance(item, FoundRecord):
                    yield item


def _restart_at(checkpoint: Checkpoint, start: int) -> Checkpoint:
    """A crash from here on must not start later than this recovery does: queues and index have nothing behind `start`."""
    if checkpoint.dispatch_end is not None and checkpoint.dispatch_end <= start:
        return checkpoint
    return checkpoint._replace(
        safe_end=checkpoint.safe_end or 0,
        dispatch_end=start,
        queue_count=checkpoint.queue_count or 0,
        entry_count=checkpoint.entry_count or 0,
    )


def _next_item(view: memoryview, segment_start: int, at: int) -> FoundRecord | Blank | None:
    found = record_at(view, segment_start, at)
    if found is None and is_blank(view, at):
        return Blank(segment_start + at, len(view) - at)
    return found


def _merge_ranges(ranges: list[DamagedRange], segment_bytes: int) -> list[DamagedRange]:
    """Ranges that touch, put together; but never across the border of a segment."""
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
