"""The store of a node of a DLedger group: a message store whose log is the group's ledger.

To brokers it is a `MessageStore`: append, read, flush, checkpoint, retention. A message becomes visible when the group has
confirmed its entry, not when it is appended: the horizon has the requirement "majority". To consensus it is a log of entries:

    end_index, end_term, begin_index      the last entry, and the first one; -1 in an empty log
    end_position                          where the last entry ends
    committed_index                       the last entry that is confirmed and visible here
    durable_index                         the last entry that is on disk here: acknowledge no later one
    entry(index), entries(first, …)       the bytes of entries, to push them to a follower
    matches(entry)                        whether the log has this very entry
    set_term(term)                        the term of what `append` writes from now on, as the leader
    refuse_appends(why)                   the node does not lead: `append` raises NotLeaderError
    append(messages, now_ms)              as the leader: number and store messages
    append_entries(entries)               as a follower: store entries that the leader has sent, byte for byte
    truncate(index)                       cut the log from an entry on; never one that is confirmed
    reset(position)                       give up everything, and begin at a position: the leader has no older entries
    begin_flush, finish_flush             sync data and index, as a job; `durable_index` moves with it
    commit(index)                         the group has confirmed everything up to an entry: it becomes visible
    term_vote, begin_save_term            the node's term and vote; the job makes a change durable: answer a vote after it
    is_new                                there was no file with term and vote: the node is new, or lost its disk
    begin_ledger_checkpoint               a job that writes `dledger-n0/checkpoint`, every few seconds
    repair                                entries that are damaged here; take those that another node still has

All calls are for the store's thread. A job's `run` may be called by any thread. Reads of entries that are not in memory follow
the rules of `cold_reads`: with an attempt set, they raise NotInMemoryError instead of waiting for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Final

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.cold_reads import NotInMemoryError
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import StoreError, WritesStoppedError, store_error
from skyrocket.store.files import Files
from skyrocket.store.horizon import MAJORITY, Horizon
from skyrocket.store.ledger.entry import (
    HEADER_BYTES,
    EntryError,
    EntryHeader,
    check_entry_bytes,
    unpack_header,
)
from skyrocket.store.ledger.entry_dispatch import decode_entry, dispatches_of
from skyrocket.store.ledger.entry_index import INDEX_FILE_BYTES
from skyrocket.store.ledger.entry_repair import EntryRepair
from skyrocket.store.ledger.layout import check_ledger
from skyrocket.store.ledger.ledger_log import LedgerLog
from skyrocket.store.ledger.node_files import LedgerCheckpoint, LedgerCheckpointFile, TermFile, TermVote
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.property_shapes import ShapeCache
from skyrocket.store.log.segment_scrub import ScrubTarget
from skyrocket.store.log.segments import OFFSET_MAX
from skyrocket.store.message import (
    UNQUEUED,
    AppendPosition,
    AppendRequest,
    AppendResult,
    dispatch_request_of,
)
from skyrocket.store.message_store import MessageStore
from skyrocket.store.recovery.checkpoint import Checkpoint
from skyrocket.store.recovery.recovery_result import RecoveryResult
from skyrocket.store.replica.diverged import DivergedFiles
from skyrocket.store.sync_jobs import FlushJob

ENTRIES_AT_ONCE: Final = 1024
_COPIED_BYTES: Final = 4 * 1024 * 1024  # at once
_CRCS: Final = slice(36, 44)  # of a header: no node looks at them


class DamagedEntryError(StoreError):
    """An entry of the log is damaged here. Another node of the group may have it."""


class NotLeaderError(StoreError):
    """The node does not lead its group now, so it appends no messages of its own."""


class LedgerStore(MessageStore):
    log: LedgerLog

    def __init__(
        self,
        root: Path | str,
        config: StoreConfig | None = None,
        *,
        node_id: str,
        files: Files | None = None,
        background: Executor | None = None,
        data: Path | str | None = None,
        index_file_bytes: int = INDEX_FILE_BYTES,
    ) -> None:
        """`node_id` is the node's id in its group (dLegerSelfId). `data` is the directory of the log if it is not in `root`."""
        self._index_file_bytes = index_file_bytes
        super().__init__(root, config, files=files, background=background, commit_log=data, ledger_id=node_id)
        self._term_file = TermFile(self._files, self.paths.term_file)
        self._ledger_checkpoint = LedgerCheckpointFile(self._files, self.paths.ledger_checkpoint)
        self._diverged = DivergedFiles(self._files, self.paths.diverged)
        self.term_vote = TermVote()
        self.is_new = True
        self.committed_index = -1
        self.durable_index = -1
        self.repair = EntryRepair(self, self._files, self._checksums, self._deleted, self._queue_repair)
        self.reading.awaits_repair = self.repair.awaits
        self._refusal: str | None = None  # why `append` takes nothing
        self._shapes = ShapeCache()
        self._flushing: tuple[int, int] = (0, -1)  # position and index that the flush under way will reach

    def _make_log(self, background: Executor | None) -> LedgerLog:
        return LedgerLog(
            self._files,
            self._log_files,
            self.paths.commit_log,
            self.paths.ledger_index,
            self.config.segment_bytes,
            background,
            self.reads,
            self._index_file_bytes,
        )

    # --- opening and closing

    def _check_layout(self) -> None:
        check_ledger(self._files, self.paths)

    def _distrust(self, checkpoint: Checkpoint, crashed: bool) -> tuple[Checkpoint, bool]:
        if not checkpoint.is_ours:
            return Checkpoint(), True  # Apache's recovery of such a store may cut queues: everything is read
        if self.log.is_index_lost:  # it is built again from headers, so all of them are looked at
            return checkpoint._replace(dispatch_end=self.log.start), True
        return checkpoint, crashed

    def _visible_end(self, checkpoint: Checkpoint) -> int:
        """Return the end of the last entry that is known to be confirmed: by the node's checkpoint, or as it was dispatched.

        Apache's node saves every three seconds what is confirmed. Its queues have no other messages, and know more.
        """
        committed = self._ledger_checkpoint.read().committed_index
        end = self.log.find_end_of(committed) if committed >= 0 else self.log.start
        if not checkpoint.is_ours:
            for entry in self.queues.read_last_entries():
                header = self.log.header_at(entry.physical_offset - HEADER_BYTES)
                if header is not None and header.size == HEADER_BYTES + entry.size:
                    end = max(end, header.end)
        was_confirmed = max(checkpoint.dispatch_end or 0, checkpoint.safe_end or 0)
        self.log.protected_end = max(end, min(was_confirmed, self.log.segments.stop))
        return self.log.protected_end

    def _start_horizon(self, visible_end: int) -> Horizon:
        horizon = Horizon(visible_end, (MAJORITY,))
        horizon.append(self.log.end)
        horizon.flush(self.log.end)
        return horizon

    def _recover(self) -> RecoveryResult:
        self.is_new = not self._files.exists(self.paths.term_file)
        self.term_vote = self._term_file.read()
        self.log.term_bound = self.term_vote.term
        was_closed = not self._files.exists(self.paths.abort)
        done = super()._recover()
        done.is_foreign = was_closed
        done.after_crash = done.after_crash and not (was_closed and done.messages == 0)  # a new store
        log = self.log
        self.committed_index = self._index_before(self.horizon.confirmed)
        self.durable_index = log.end_index
        log.term = max(self.term_vote.term, log.end_term)
        done.reindexed = log.rewritten
        self.repair.find_at_start()
        self._doubt_votes(done)
        return done

    def _doubt_votes(self, done: RecoveryResult) -> None:
        """A node that has lost confirmed entries with a file may vote only as one that lost its disk, until it has them again."""
        known = self._ledger_checkpoint.read()
        if known.committed_index <= self.end_index and done.safe_end <= self.log.end:
            return
        done.lost_after = self.end_index
        if not self.term_vote.is_learner:
            self.term_vote = self.term_vote._replace(is_learner=True)
            self._term_file.write(self.term_vote)

    def _index_before(self, position: int) -> int:
        """Return the index of the last entry that ends at or before a position; -1 when there is none."""
        log = self.log
        if log.last is None or position <= log.start:
            return log.begin_index - 1 if log.last is not None else -1
        if position >= log.last.end:
            return log.last.index
        return log.entries.find_at(position, log.begin_index, log.last.index) - 1

    def close(self) -> None:
        if self._release is not None and self._stopped is None:
            try:
                self.begin_ledger_checkpoint()()
            except OSError as error:
                super().close()
                raise store_error(f"writing {self.paths.ledger_checkpoint}", error) from error
        super().close()

    # --- state

    @property
    def end_index(self) -> int:
        return self.log.end_index

    @property
    def end_term(self) -> int:
        return self.log.end_term

    @property
    def begin_index(self) -> int:
        return self.log.begin_index

    @property
    def stopped(self) -> str | None:
        """Why the store takes no more writes until it is opened again; None while it takes them."""
        return self._stopped

    @property
    def end_position(self) -> int:
        """Where the last entry ends in the log."""
        return self.log.end

    # --- reading entries

    def entry(self, index: int) -> bytes | None:
        """Return an entry, header and record; None when the log does not have it. Raise DamagedEntryError when it is damaged."""
        found = self.entries(index, 1)
        return bytes(found[0]) if found else None

    def entries(self, first: int, count: int = ENTRIES_AT_ONCE, bytes_max: int = 2**31) -> list[memoryview]:
        """Return up to `count` entries from `first` on, at least one if the log has it, within `bytes_max` and one segment.

        Raise DamagedEntryError when the first one is damaged. The views are valid until the log is truncated.
        """
        found = self._read_entries(first, count, bytes_max)
        if found is None and self.log.find_header(first) is not None:  # the index may be damaged, and not the entry
            found = self._read_entries(first, count, bytes_max)
        if found is None:
            raise DamagedEntryError(f"Entry {first} is damaged here. Another node of the group may have it.")
        return found

    def matches(self, entry: bytes | memoryview) -> bool:
        """Whether the log has this very entry, as COMPARE asks. Raise DamagedEntryError when its own one is damaged."""
        header = unpack_header(entry)
        own = None if header is None or header.size != len(entry) else self.entry(header.index)
        if own is None or len(own) != len(entry):
            return False
        return own[: _CRCS.start] == bytes(entry[: _CRCS.start]) and own[_CRCS.stop :] == bytes(entry[_CRCS.stop :])

    def _read_entries(self, first: int, count: int, bytes_max: int) -> list[memoryview] | None:
        """Return entries as the index says; None when the first one is not intact there."""
        if not self.log.has_index(first):
            return []
        headers = self.log.entries.read(first, min(count, ENTRIES_AT_ONCE, self.log.end_index - first + 1))
        if not headers:
            return None
        start = headers[0].pos
        border = start - start % self.log.segments.segment_bytes + self.log.segments.segment_bytes
        run = [headers[0]]
        for header in headers[1:]:
            if header.pos != run[-1].end or header.end - start > bytes_max or header.end > border:
                break
            run.append(header)
        view = self.log.view(start, run[-1].end - start)
        found: list[memoryview] = []
        for header in run:
            entry = None if view is None else view[header.pos - start : header.end - start]
            if entry is None or not self._is_intact(header, entry):
                return found or None
            found.append(entry)
        return found

    def _is_intact(self, header: EntryHeader, entry: memoryview) -> bool:
        """Whether an entry is what was written. What this process wrote recently is still in memory."""
        found = unpack_header(entry)
        if found is None or found[:4] != header[:4]:
            return False
        if header.pos >= self.log.hot_from:
            return True
        record = entry[HEADER_BYTES:]
        if self._checksums.matches(header.record_offset, record) is False:
            return False
        try:
            return not is_filler(decode_record(record))
        except RecordError:
            return False

    def recent_run(self, first: int, count: int, bytes_max: int) -> tuple[int, memoryview] | None:
        """Return up to `count` entries from `first` on as they lie together, and how many they are.

        This is for what the leader pushes in most turns: what it wrote recently, up to the end of its log. Return None for
        anything else; `entries` finds it.
        """
        log = self.log
        last = min(first + count - 1, log.end_index)
        head = log.entries.get(first) if log.has_index(first) else None
        tail = log.last if last == log.end_index else log.entries.get(last)
        if head is None or tail is None or head.pos < log.hot_from or tail.end - head.pos > bytes_max:
            return None
        if head.pos // log.segments.segment_bytes != tail.pos // log.segments.segment_bytes:
            return None
        view = log.view(head.pos, tail.end - head.pos)
        found = None if view is None else unpack_header(view)
        if view is None or found is None or found[:4] != head[:4]:
            return None
        return last - first + 1, view

    # --- writing entries

    def append_position(self, now_ms: int) -> AppendPosition:
        if self._refusal is not None:
            raise NotLeaderError(self._refusal)
        return super().append_position(now_ms)

    def check_appendable(self) -> None:
        """Raise an error when no entry can be stored now, whoever leads: the disk is full, or the store is stopped."""
        super().append_position(0)

    def append(self, messages: Sequence[AppendRequest], now_ms: int) -> list[AppendResult]:
        if self._refusal is not None:
            raise NotLeaderError(self._refusal)
        for message in messages:
            check_entry_bytes(len(message.record) + HEADER_BYTES)
        return super().append(messages, now_ms)

    def set_term(self, term: int) -> None:
        """Set the term of the entries that `append` writes: the node leads in it."""
        assert term >= self.log.end_term
        self.log.term = term
        self._refusal = None

    def refuse_appends(self, why: str) -> None:
        """Let `append` raise NotLeaderError from now on, until the node leads again."""
        self._refusal = why

    def append_entries(self, entries: Sequence[bytes | memoryview]) -> None:
        """Append entries that the leader has sent, all or none. Raise EntryError when one does not belong here."""
        self.check_appendable()
        before = self.log.end
        if not entries:
            return
        runs = self.log.plan_entries(entries)
        dispatches = dispatches_of(entries, self._delays_ms, self._shapes)
        try:
            self.log.write_runs(runs, len(entries))
        except WritesStoppedError as error:
            self._stop(str(error))
            raise
        for run in runs:
            if run.offsets:
                self._checksums.append(run.start, run.data, run.bounds())
        taken = {
            (topic, queue_id): queue_offset + 1
            for topic, queue_id, queue_offset, _, _, _, _, _, sys_flag in dispatches
            if sys_flag & TRANSACTION_MASK not in UNQUEUED
        }
        timestamp = max(self.last_timestamp, dispatches[-1][6])
        self._finish_append(dispatches, taken, timestamp, before)

    def begin_with(self, entry: bytes | memoryview) -> None:
        """Give up the whole log, and begin it again with an entry of the leader, which has no older ones."""
        header, _ = decode_entry(entry)
        if self.log.last is not None or header.pos != self.log.end:
            self.reset(header.pos)
        self.append_entries([entry])

    def reset(self, position: int) -> None:
        """Give up the whole log, confirmed or not, and begin again at a position: the leader has no older entries.

        Queues and index of the messages that are gone are deleted. This is rare, and waits for the disk.
        """
        self._check_writable()
        self.log.check_start(position)
        try:
            self.queues.remove_all()  # first: a log without its queues builds them again
            self._checksums.write_late()
            expired = self._checksums.expire(OFFSET_MAX)
            if self.index is not None:
                self.index.write_late()
                self.index.rebuild(0)
            self.log.begin_at(position)
            for path, open_file in expired:
                del open_file
                self._files.remove(path)
        except OSError as error:
            self._stop(f"giving up the log failed ({error.strerror or error}).")
            raise store_error("giving up the log of the node", error) from error
        self.horizon.restart(position)
        self._dispatcher.restart_at(position, self.last_timestamp)
        self._late.restart()
        self._flushing = (position, -1)
        self.reading.forget_earliest()
        self.committed_index = self.durable_index = -1
        self.repair.clear()

    def truncate(self, index: int) -> None:
        """Cut the log from an entry on. Raise EntryError when it is confirmed: what the group has confirmed is never cut.

        What is cut is kept in `diverged`. This is rare, and waits for the disk: no old sector may come back under a new entry.
        """
        self._check_writable()
        header = self.log.header_of(index)
        if header is None:
            return
        if header.pos < self.horizon.confirmed:
            raise EntryError(f"Entry {index} is confirmed, up to entry {self.committed_index}. It is never cut.")
        freed = self._queue_offsets_from(index)
        try:
            self._keep_aside(header.pos)
        except OSError as error:  # nothing has changed yet: a full disk may have room later
            raise store_error(f"keeping what is cut from entry {index} on", error) from error
        try:
            self._checksums.write_late()
            self.log.truncate(index, header.pos)
            end = self.log.end
            self._checksums.cut(end)
            self._checksum_files.take_unsynced().sync()  # no checksum of what was cut may come back
            self._deleted.shorten(end)
        except OSError as error:
            self._stop(f"cutting the log failed ({error.strerror or error}).")
            raise store_error(f"cutting the log from entry {index} on", error) from error
        self.queues.free_offsets(freed)
        self._dispatcher.forget_from(end)
        self.horizon.truncate(end)
        self._flushing = (min(self._flushing[0], end), min(self._flushing[1], index - 1))
        self.durable_index = min(self.durable_index, index - 1)

    def _keep_aside(self, pos: int) -> None:
        """Copy the log from `pos` on: a client may have been told nothing about these messages, or that they failed."""
        segment_bytes = self.log.segments.segment_bytes
        self._diverged.make_room(self.log.end - pos)
        while pos < self.log.end:
            stop = min(pos - pos % segment_bytes + segment_bytes, self.log.end)
            start = self.log.segments.start_of(pos)
            if start is not None:
                file = self.log.segments.file(start)
                pieces = (file.read(at - start, min(_COPIED_BYTES, stop - at)) for at in range(pos, stop, _COPIED_BYTES))
                self._files.replace_with_backup(f"{self.paths.diverged}/{pos:020d}-{stop - pos}", pieces, None)
            pos = stop

    def _queue_offsets_from(self, index: int) -> dict[tuple[str, int], int]:
        """Return the lowest queue offset of each queue among the entries from `index` on."""
        freed: dict[tuple[str, int], int] = {}
        first = self.log.header_of(index)
        assert first is not None
        for header in self.log.walk_headers(first.pos, self.log.end):
            view = self.log.view(header.record_offset, header.size - HEADER_BYTES)
            record = None if view is None else _decode_or_none(view)
            if record is not None and (key := (record.topic, record.queue_id)) not in freed:
                dispatch = dispatch_request_of(record, header.size - HEADER_BYTES, self._delays_ms)
                if dispatch.is_queued:
                    freed[key] = record.queue_offset
        return freed

    # --- damage

    @property
    def damaged_indexes(self) -> list[int]:
        """The entries that are damaged here."""
        return list(self.repair.damaged)

    def is_intact(self, index: int) -> bool:
        """Whether an entry can be read, and is what was written."""
        try:
            return bool(self._read_entries(index, 1, 2**31))
        except NotInMemoryError:
            raise  # nothing is known of it yet
        except StoreError:
            return False

    @property
    def dispatched_end(self) -> int:
        """Every confirmed message before this position of the log is in its queue, except damaged ones."""
        return self._dispatcher.end

    def next_scrub_target(self, after: int) -> ScrubTarget | None:
        """Also of the open segment what this process has not written: a node that comes back may have been damaged meanwhile."""
        found = super().next_scrub_target(after)
        start = self.log.segments.start_of(self.log.opened_at - 1)
        if found is not None or start is None or start <= after:
            return found
        size = min(self.log.opened_at - start, self.log.segments.segment_bytes)
        place = self._checksums.place_of(start)
        return ScrubTarget(start, self.log.segments.segment_bytes, self.log.segments.path(start), *place, self.log.framing, size)

    # --- durability

    def begin_flush(self) -> FlushJob | None:
        job = super().begin_flush()
        if job is not None:
            self._flushing = (job.position, self.log.end_index)
        return job

    def finish_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        """Report that the job has run. What was cut and written again meanwhile does not count as flushed."""
        position, index = self._flushing
        super().finish_flush(job._replace(position=min(position, job.position)), error)
        self.durable_index = max(self.durable_index, index)

    def begin_save_term(self, state: TermVote) -> Callable[[], None]:
        """Take a new term or vote, and return a job that makes it durable. Nobody may be told of it before the job has run."""
        assert state.term >= self.term_vote.term
        self.term_vote = state
        return partial(self._term_file.write, state)

    def begin_ledger_checkpoint(self) -> Callable[[], None]:
        """Return a job that writes the node's checkpoint. It is a hint: the group confirms everything again if it is old."""
        return partial(self._ledger_checkpoint.write, LedgerCheckpoint(self.end_index, self.committed_index))

    # --- confirmation

    def commit(self, index: int) -> None:
        """Make everything up to an entry visible, as far as the log has it. It never goes back."""
        index = min(index, self.end_index)
        if index <= self.committed_index:
            return
        header = self.log.header_of(index)
        assert header is not None
        self.committed_index = index
        self._dispatcher.dispatch_or_postpone(self.horizon.reach(MAJORITY, header.end))
        self._late.relieve()


def _decode_or_none(view: memoryview) -> Record | None:
    try:
        return decode_record(view)
    except RecordError:
        return None
