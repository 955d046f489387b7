"""Dispatch: confirmed messages of the commit log get their consume queue entries and their index entries.

    commit log   | dispatched | confirmed, not yet dispatched | appended, not yet confirmed |
                              ^ end                           ^ horizon.confirmed           ^ log.end

As a rule an append is confirmed at once, and its messages go into queues and index in the same call. Otherwise the dispatcher
keeps what queues and index need in memory, up to a bound. Beyond the bound it reads the log again. Apache's broker always reads
the log again, in a thread of its own (ReputMessageService).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from skyrocket.store.errors import DiskFullError, StoreIOError
from skyrocket.store.index.index import Index
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import FoundRecord, walk_segment
from skyrocket.store.message import DispatchFields, DispatchRequest, dispatch_request_of
from skyrocket.store.queues.consume_queues import ConsumeQueues
from skyrocket.store.queues.deleted_topics import DeletedTopics


class CommitLogDispatcher:
    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        deleted: DeletedTopics,
        index: Index | None,
        delays_ms: tuple[int, ...],
        pending_max: int,
    ) -> None:
        """`pending_max` bounds the messages whose dispatch waits in memory."""
        self._log = log
        self._queues = queues
        self._deleted = deleted
        self._index = index
        self._delays_ms = delays_ms
        self._pending_max = pending_max
        self._pending: deque[DispatchRequest] = deque()
        self._remembered_end = 0  # `_pending` has every message between `end` and this log offset
        self._grown: dict[tuple[str, int], None] = {}  # an ordered set
        self.end = 0  # every message before this log offset is in queues and index
        self.last_offset = 0  # physical offset of the last dispatched message
        self.last_timestamp = 0  # its store time

    def start_at(self, log_end: int, last_offset: int, last_timestamp: int) -> None:
        """Recovery has brought queues and index into line with the log, up to its end."""
        self.end = self._remembered_end = log_end
        self.last_offset, self.last_timestamp = last_offset, last_timestamp

    def cut(self, log_end: int) -> None:
        """Queues and index end with the log at `log_end` now: a slave has given up what its master does not have."""
        self._pending.clear()
        self._grown.clear()
        self.end = self._remembered_end = log_end
        self.last_offset = min(self.last_offset, log_end)

    def add(self, dispatches: Sequence[DispatchFields], log_end_before: int, confirmed: int) -> None:
        """Take over messages that were just appended behind `log_end_before`, and dispatch what is confirmed.

        A queue that cannot grow does not undo an append: the messages wait for the next dispatch, and appends wait for that.
        """
        log_end = self._log.end
        if dispatches and confirmed == log_end and self._remembered_end == log_end_before and not self._pending:
            try:
                self._put(dispatches)
            except (DiskFullError, StoreIOError):
                self._remember(dispatches, log_end_before)
            else:
                self.end = self._remembered_end = log_end
        else:
            self._remember(dispatches, log_end_before)
            self.dispatch_or_postpone(confirmed)

    def restart_at(self, position: int, last_timestamp: int) -> None:
        """The log has begun anew at `position`, without messages."""
        self._pending.clear()
        self._grown.clear()
        self.start_at(position, 0, last_timestamp)

    def forget_from(self, position: int) -> None:
        """Forget the messages from `position` on: they were not confirmed, and are gone from the log."""
        assert self.end <= position
        while self._pending and self._pending[-1].physical_offset >= position:
            self._pending.pop()
        self._remembered_end = min(self._remembered_end, position)

    def _remember(self, dispatches: Sequence[DispatchFields], log_end_before: int) -> None:
        """Keep what queues and index need, so that the log is not read again for it; within the bound, and without gaps."""
        if self._remembered_end != log_end_before or len(self._pending) + len(dispatches) > self._pending_max:
            return
        self._pending.extend(map(DispatchRequest._make, dispatches))
        self._remembered_end = self._log.end

    def dispatch(self, confirmed: int) -> None:
        """Put every message before `confirmed` into queues and index. An error leaves the rest for the next call."""
        while self.end < confirmed:
            turn = self._next_turn(confirmed)
            if not turn:
                break
            self._put(turn)
            self.end = turn[-1].end
            if len(turn) >= len(self._pending):
                self._pending.clear()
            else:
                for _ in turn:
                    self._pending.popleft()
        if confirmed == self._log.end:  # what is left, if anything, is a blank
            self.end = self._remembered_end = confirmed

    def dispatch_or_postpone(self, confirmed: int) -> None:
        """Like `dispatch`, but a full or failing disk postpones the rest instead of raising an error."""
        with suppress(DiskFullError, StoreIOError):
            self.dispatch(confirmed)

    def _put(self, turn: Sequence[DispatchFields]) -> None:
        counted = turn
        if turn[0][3] < self._deleted.latest:  # a topic was deleted between append and confirmation
            counted = [one for one in turn if not self._deleted.covers(one[0], one[3])]
        if counted:
            self._grown.update(self._queues.put(counted))
            if self._index is not None:
                self._index.put(counted)
        last = turn[-1]
        self.last_offset, self.last_timestamp = last[3], last[6]

    def take_grown(self) -> list[tuple[str, int]]:
        """Return the queues that got messages since the last call: pulls that wait for them can be answered."""
        grown = list(self._grown)
        self._grown.clear()
        return grown

    def _next_turn(self, confirmed: int) -> list[DispatchRequest]:
        pending = self._pending
        if not pending:
            return self._reread(self.end, confirmed)
        if pending[-1].end <= confirmed:
            return list(pending)
        return [dispatch for dispatch in pending if dispatch.end <= confirmed]

    def _reread(self, start: int, stop: int) -> list[DispatchRequest]:
        """Read from the log what was too much to keep in memory; at most one segment."""
        start = max(self._skip_blank(start), self._log.start)  # the messages there may have expired
        segment_start = self._log.segments.start_of(start)
        if segment_start is None or start >= stop:
            return []
        view = self._log.segments.file(segment_start).view()[: stop - segment_start]
        items = walk_segment(view, segment_start, start - segment_start, framing=self._log.framing)
        found = [item for item in items if isinstance(item, FoundRecord)]
        return [dispatch_request_of(item.record, item.size, self._delays_ms) for item in found if not is_filler(item.record)]

    def _skip_blank(self, offset: int) -> int:
        """Return the start of the next segment when a blank lies at `offset`; `offset` otherwise."""
        segment_bytes = self._log.segments.segment_bytes
        return offset - offset % segment_bytes + segment_bytes if self._log.is_blank(offset) else offset
