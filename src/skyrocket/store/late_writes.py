"""Late writes: queue entries, index keys and checksums wait in memory, and reach their files many at once.

    append  →  log, one write            the truth: everything below can be built again from it
            →  queues, index, checksums  in memory; readers of the running store see them there
                    │
                    └─ a round before each checkpoint, or earlier when one of the bounds is reached

A round writes everything that was dispatched when it began, a few queues at a time, so that the event loop is not held up. Only
then a checkpoint may claim it: recovery builds whatever lies behind the claim again.

A write that fails does not undo an append. What it should have written stays in memory, and appends wait until it succeeds.
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.store.dispatch import CommitLogDispatcher
from skyrocket.store.errors import DiskFullError, StoreIOError
from skyrocket.store.index.index import Index
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.queues.consume_queues import ConsumeQueues
from skyrocket.store.recovery.checkpoint import Checkpoint

QUEUES_LATE_BYTES_MAX = 16 * 1024 * 1024  # of all queues: 800,000 entries
INDEX_LATE_BYTES_MAX = 64 * 1024  # 3,000 keys
CHECKSUMS_LATE_BYTES_MAX = 64 * 1024  # 8,000 records
QUEUES_AT_ONCE = 64  # written before others get their turn, fewer if they need new files: about a millisecond


class DispatchMark(NamedTuple):
    """How far messages have been dispatched."""

    end: int = 0  # every message before this log offset is in queues and index
    last_offset: int = 0  # physical offset of the last one
    last_timestamp: int = 0  # its store time
    queue_count: int = 0  # queues with entries
    entry_count: int = 0  # the sum of their maximum offsets


class LateWrites:
    def __init__(self, dispatcher: CommitLogDispatcher, queues: ConsumeQueues, index: Index | None, checksums: Checksums) -> None:
        self._dispatcher = dispatcher
        self._queues = queues
        self._index = index
        self._checksums = checksums
        self._mark: DispatchMark | None = None  # where the current round began; None between rounds
        self._queues_left = 0  # to be written in this round
        self.written = DispatchMark()  # everything before it is in the files
        self.is_fresh = False  # a round has ended since the last checkpoint
        self.is_behind = False  # a write has failed: appends wait until everything is written

    def start_at_mark(self) -> None:
        """Recovery has written everything that is dispatched."""
        self.written = self._measure()

    def restart(self) -> None:
        """Queues and index are empty, and so is the log: a round that was under way has nothing left to write."""
        self._mark, self._queues_left, self.is_fresh = None, 0, False
        self.written = self._measure()

    def relieve(self) -> None:
        """Write what is too much to be kept in memory. A failure is remembered in `is_behind`."""
        queues, index, checksums = self._queues, self._index, self._checksums
        try:
            if checksums.late_bytes >= CHECKSUMS_LATE_BYTES_MAX:
                checksums.write_late()
            if index is not None and len(index.late) >= INDEX_LATE_BYTES_MAX:
                index.write_late()
            if queues.crowded:
                queues.write_crowded()
            while queues.late_bytes >= QUEUES_LATE_BYTES_MAX:
                queues.write_late(QUEUES_AT_ONCE)
        except (DiskFullError, StoreIOError):
            self.is_behind = True

    def write_some(self) -> bool:
        """Write a part of a round, and begin one if none is under way. Return whether the round has ended."""
        try:
            if self._mark is None:
                self._begin()
            written = self._queues.write_late(min(QUEUES_AT_ONCE, self._queues_left))
        except (DiskFullError, StoreIOError):
            self.is_behind = True
            raise
        self._queues_left -= written
        if self._queues_left and written:
            return False
        assert self._mark is not None
        self.written, self._mark, self.is_fresh = self._mark, None, True
        return True

    def _begin(self) -> None:
        mark = self._measure()
        self._checksums.write_late()
        if self._index is not None:
            self._index.write_late()
        self._queues_left = self._queues.late_count
        self._mark = mark

    def write_all(self) -> None:
        """Write everything that is in memory. Raise StoreError when that fails; then appends wait."""
        self._mark = None
        while not self.write_some():
            pass
        self.is_behind = False

    def claim(self, flushed: int, flushed_timestamp: int) -> Checkpoint:
        """Return the checkpoint that holds once all files are synced. The log is on disk up to `flushed`.

        It claims what the last round has written. Without a round since the last checkpoint, everything is written now.
        """
        if not self.is_fresh:
            self.write_all()
        self.is_fresh = False
        self._checksums.write_late()  # all of them up to the safe end
        written = self.written
        return Checkpoint(
            log_timestamp=flushed_timestamp,
            queue_timestamp=min(written.last_timestamp, flushed_timestamp),
            index_timestamp=self._index.written_timestamp if self._index is not None else 0,
            confirmed_offset=0,
            queue_physical_offset=min(written.last_offset, flushed),
            safe_end=flushed,
            dispatch_end=min(written.end, flushed),
            queue_count=written.queue_count,
            entry_count=written.entry_count,
        )

    def forget_queues(self, queue_count: int, entry_count: int) -> None:
        """Count queues no longer that were deleted: no checkpoint may count them."""
        self.written = _without(self.written, queue_count, entry_count)
        self._mark = None if self._mark is None else _without(self._mark, queue_count, entry_count)

    def _measure(self) -> DispatchMark:
        dispatcher, queues = self._dispatcher, self._queues
        return DispatchMark(dispatcher.end, dispatcher.last_offset, dispatcher.last_timestamp, len(queues), queues.entry_count)


def _without(mark: DispatchMark, queue_count: int, entry_count: int) -> DispatchMark:
    return mark._replace(queue_count=max(0, mark.queue_count - queue_count), entry_count=max(0, mark.entry_count - entry_count))
