"""The store: everything that a broker keeps of messages, behind one object.

It belongs to one thread. Work that waits for the disk is handed out as jobs (`begin_flush`, `begin_checkpoint`), whose `run`
may happen in any thread, and whose result comes back through `finish_flush` and `finish_checkpoint`.

    append → [flush, replicas] → confirmed → queues, index → readable
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.config import StoreConfig, delay_levels_ms
from skyrocket.store.errors import (
    DiskFullError,
    StoreClosedError,
    StoreError,
    StoreIOError,
    StoreLockedError,
    WritesStoppedError,
    store_error,
)
from skyrocket.store.files import Disk, Files, OpenFiles
from skyrocket.store.horizon import Horizon
from skyrocket.store.index.index import Index
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog, Written
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import Found, walk_segment
from skyrocket.store.message import UNQUEUED, Dispatch, Dispatched, Opening, Placed, Unplaced, dispatch_of, entry_code
from skyrocket.store.paths import StorePaths
from skyrocket.store.queues.consume_queues import ConsumeQueues, QueueKey
from skyrocket.store.read.reading import Reading
from skyrocket.store.recovery.checkpoint import Checkpoint, CheckpointFile
from skyrocket.store.recovery.recovery import Recovered, Recovery
from skyrocket.store.recovery.repair import QueueRepair
from skyrocket.store.retention import Verdict, judge

_OUR_ABORT = b"skyrocket\n"  # Apache's broker writes its process id there, and neither reads what it finds
_LOG_FILES_MAX = 4096  # a log of 4 TiB; readers of older segments open them again


class FlushJob(NamedTuple):
    """Makes the log safe on disk up to `position`."""

    position: int
    timestamp: int  # store time of the last message before it
    run: Callable[[], None]


@dataclass(slots=True)
class CheckpointJob:
    """Makes queues, index and checksums safe on disk, and then says so in the checkpoint."""

    checkpoint: Checkpoint
    _sync: Callable[[], None]
    _write: Callable[[Checkpoint], None]
    is_synced: bool = False

    def run(self) -> None:
        self._sync()
        self.is_synced = True
        self._write(self.checkpoint)


class MessageStore:
    def __init__(
        self,
        root: Path | str,
        config: StoreConfig | None = None,
        *,
        files: Files | None = None,
        background: Executor | None = None,
    ) -> None:
        """`background` makes log segments ahead of need; without it they are made when they are needed."""
        self.config = config or StoreConfig()
        self.paths = StorePaths(root)
        self._files = files or Disk()
        self._delays_ms = delay_levels_ms(self.config.delay_levels)
        self._log_files = OpenFiles(self._files, _LOG_FILES_MAX)
        self._other_files = OpenFiles(self._files, self.config.open_files_max)
        config = self.config
        self.log = CommitLog(self._files, self._log_files, self.paths.commit_log, config.segment_bytes, background)
        self.queues = ConsumeQueues(self._files, self._other_files, self.paths.consume_queues, config.queue_entries_per_file)
        self.index = (
            Index(self._files, self.paths.index, config.index_slots, config.index_entries) if config.index_enabled else None
        )
        self._checksums = Checksums(self._files, self._log_files, self.paths.checksums, config.segment_bytes)
        self._checkpoint_file = CheckpointFile(self._files, self.paths.checkpoint)
        repair = QueueRepair(self.log, self._delays_ms)
        self.reading = Reading(self.log, self.queues, self.index, self._checksums, repair, lambda: self.horizon.confirmed)
        self.horizon = Horizon(0)
        self._undispatched: deque[Dispatch] = deque()
        self._grown: dict[QueueKey, None] = {}  # in order
        self._remembered = 0  # up to here in the log, `_undispatched` has what is not dispatched
        self._dispatched = 0  # everything in the log before this is in queues and index
        self._last_dispatch: tuple[int, int] = (0, 0)  # (physical offset, store time) of the last message there
        self._last_append_timestamp = 0
        self._flushed_timestamp = 0
        self._flushing = False  # a flush job is under way
        self._stopped: str | None = None  # why there are no more writes
        self._too_full: str | None = None  # why there are none for now
        self._release: Callable[[], None] | None = None  # of the lock; None while the store is closed

    # --- opening and closing

    def open(self) -> Recovered:
        """Lock the directory, recover, and be ready. What recovery found is returned; `sentences()` tells it."""
        try:
            self._release = self._files.lock(self.paths.lock)
            if self._release is None:
                raise StoreLockedError(f"Another process has the store in {self.paths.root} open.")
            return self._recover()
        except OSError as error:
            self._abandon()
            raise store_error(f"opening the store in {self.paths.root}", error) from error
        except BaseException:
            self._abandon()
            raise

    def _recover(self) -> Recovered:
        crashed = self._files.exists(self.paths.abort)
        is_ours = crashed and self._files.read(self.paths.abort) == _OUR_ABORT
        checkpoint = self._checkpoint_file.read()
        self.log.load()

        def begin(until_done: Checkpoint) -> None:
            for path in self._checksums.take_dirty():
                self._files.sync(path)  # once the abort file is ours, all of them are believed
            if until_done != checkpoint:
                self._checkpoint_file.write(until_done)
            self._files.replace(self.paths.abort, _OUR_ABORT)

        done = Recovery(
            self._files, self.log, self.queues, self.index, self._checksums, self.paths.damaged, self._delays_ms, begin
        ).run(checkpoint, crashed=crashed, is_ours=is_ours)
        self.horizon = Horizon(self.log.end, ("flushed",) if self.config.sync_flush else ())
        self._dispatched = self._remembered = self.log.end
        offset = done.last_offset if done.messages else checkpoint.queue_physical_offset
        timestamp = done.last_timestamp if done.messages else checkpoint.queue_timestamp
        self._last_dispatch = (offset, timestamp)
        self._last_append_timestamp = self._flushed_timestamp = timestamp
        self.reading.opened_at(self.log.end)
        for file in self.log.files_between(done.walked_from, self.log.end):
            file.sync()
        self.checkpoint()
        return done

    def close(self) -> None:
        """Flush, write the checkpoint, and leave the directory as a clean stop leaves it. After a failed flush, as a crash."""
        if self._release is None:
            return
        try:
            self.log.close()
            if self._stopped is None:
                self.log.scrub()
                self.flush()
                self.dispatch()
                self.checkpoint()
                self._files.remove(self.paths.abort)
        except OSError as error:
            raise store_error(f"closing the store in {self.paths.root}", error) from error
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self.index is not None:
            self.index.close()
        self._log_files.close()
        self._other_files.close()
        if self._release is not None:
            self._release()
            self._release = None

    # --- writing

    def append(self, messages: Sequence[Unplaced], now_ms: int) -> list[Placed]:
        """Put messages into the log, all of them or none. They are promised to nobody before `horizon.confirmed` passes them."""
        log_end_before, _, timestamp = self.opening(now_ms)
        if not messages:
            return []
        queue_offsets, taken = self._take_offsets(messages)
        try:
            written = self.log.append([message.record for message in messages], queue_offsets, timestamp)
        except WritesStoppedError as error:
            self._stopped = str(error)
            raise
        sizes = [len(message.record) for message in messages]
        self._add_checksums(written)
        offsets = chain.from_iterable([run.offsets for run in written])
        placed = list(map(Placed._make, zip(queue_offsets, offsets, sizes, strict=True)))
        self._appended(self._dispatches(messages, placed, timestamp), taken, timestamp, log_end_before)
        return placed

    def opening(self, now_ms: int) -> Opening:
        """Where the next record goes. An error says why there are no appends now."""
        self._check_writable()
        self._check_room()
        if self._dispatched < self.horizon.confirmed:
            self.dispatch()  # if queues cannot grow, say so before anything is stored
        timestamp = max(now_ms, self._last_append_timestamp)  # the log's times never go back: searches by time rely on it
        return Opening(self.log.end, self.log.room_bytes, timestamp)

    def append_placed(
        self, opening: Opening, data: bytes, dispatches: Sequence[Dispatched], taken: dict[tuple[str, int], int]
    ) -> None:
        """As `append`, for who has put the records together with their places in them: `data` has them from the opening on, one
        behind the other. `dispatches` has what queues and index need of each; `taken` says where the queues go on."""
        assert opening.position == self.log.end, "something was appended since the opening"
        try:
            written = self.log.append_placed(data, [one[3] for one in dispatches])
        except WritesStoppedError as error:
            self._stopped = str(error)
            raise
        self._add_checksums([written])
        self._appended(dispatches, taken, opening.timestamp, opening.position)

    def _add_checksums(self, written: list[Written]) -> None:
        """For what was written just now; without them, it is taken back."""
        try:
            for run in written:
                if run.offsets:
                    self._checksums.append(run.start, run.data, run.bounds())
        except StoreError:
            self.log.take_back(written[0].start, written)
            self._checksums.take_back(written[0].start)
            raise

    def _appended(
        self, dispatches: Sequence[Dispatched], taken: dict[tuple[str, int], int], timestamp: int, log_end_before: int
    ) -> None:
        """These are in the log now. What is confirmed at once goes straight into queues and index."""
        self.queues.took(taken)
        self._last_append_timestamp = timestamp
        is_next = self._remembered == log_end_before and not self._undispatched
        if self.horizon.append(self.log.end) == self.log.end and is_next:
            try:
                self._put(dispatches)
            except (DiskFullError, StoreIOError):
                self._remember(dispatches, log_end_before)
            else:
                self._dispatched = self._remembered = self.log.end
        else:
            self._remember(dispatches, log_end_before)
            self._dispatch_or_leave()

    def _take_offsets(self, messages: Sequence[Unplaced]) -> tuple[list[int], dict[tuple[str, int], int]]:
        """The queue offset of each message, and where their queues go on."""
        taken: dict[tuple[str, int], int] = {}
        offsets: list[int] = []
        for topic, queue_id, _, _, _, sys_flag, _ in messages:
            if sys_flag and sys_flag & TRANSACTION_MASK in UNQUEUED:
                offsets.append(0)
                continue
            key = (topic, queue_id)
            offset = taken.get(key)
            if offset is None:
                offset = self.queues.next_offset(key)
            taken[key] = offset + 1
            offsets.append(offset)
        return offsets, taken

    def _dispatches(self, messages: Sequence[Unplaced], placed: list[Placed], timestamp: int) -> list[Dispatched]:
        return [
            (
                topic,
                queue_id,
                queue_offset,
                physical_offset,
                size,
                entry_code(code, level, timestamp, self._delays_ms) if level else code,
                timestamp,
                keys,
                sys_flag,
            )
            for (topic, queue_id, _, code, keys, sys_flag, level), (queue_offset, physical_offset, size) in zip(
                messages, placed, strict=True
            )
        ]

    def _remember(self, dispatches: Sequence[Dispatched], log_end_before: int) -> None:
        """Keep what queues and index will need, so that the log is not read again for it; within a bound, and without gaps."""
        if self._remembered != log_end_before or len(self._undispatched) + len(dispatches) > self.config.undispatched_max:
            return
        self._undispatched.extend(map(Dispatch._make, dispatches))
        self._remembered = self.log.end

    def _check_writable(self) -> None:
        if self._release is None:
            raise StoreClosedError(f"The store in {self.paths.root} is closed.")
        if self._stopped is not None:
            raise WritesStoppedError(f"The store takes no messages since a flush failed: {self._stopped}")

    def _check_room(self) -> None:
        if self._too_full is not None:
            raise DiskFullError(f"{self._too_full} The store takes no messages above {self.config.disk_warning_percent} %.")

    # --- flushing

    def begin_flush(self) -> FlushJob | None:
        """A job that makes everything appended so far safe on disk; None when it is."""
        self._check_writable()
        position = self.horizon.appended
        if position <= self.horizon.flushed:
            return None
        files = self.log.files_between(self.horizon.flushed, position)
        self._flushing = True

        def run() -> None:
            for file in files:
                file.sync()

        return FlushJob(position, self._last_append_timestamp, run)

    def finish_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        """The job ran. A flush that failed is never tried again: what it left on disk is unknown, and the kernel forgets."""
        self._flushing = False
        if error is not None:
            self._stopped = f"{error.strerror or error}."
            raise WritesStoppedError(f"A flush failed ({error.strerror or error}); the store takes no more messages.") from error
        self._flushed_timestamp = max(job.timestamp, self._flushed_timestamp)
        self.horizon.flush(job.position)
        self._dispatch_or_leave()

    def flush(self) -> None:
        """Make everything appended safe on disk, here and now."""
        job = self.begin_flush()
        if job is None:
            return
        try:
            job.run()
        except OSError as error:
            self.finish_flush(job, error)
        self.finish_flush(job)

    # --- queues and index

    def dispatch(self) -> None:
        """Put what is confirmed into queues and index. A full disk leaves it for the next call."""
        confirmed = self.horizon.confirmed
        while self._dispatched < confirmed:
            turn = self._next_dispatches(confirmed)
            if not turn:
                break
            self._put(turn)
            self._dispatched = turn[-1].end
            if len(turn) >= len(self._undispatched):
                self._undispatched.clear()
            else:
                for _ in turn:
                    self._undispatched.popleft()
        if confirmed == self.log.end:  # what is left, if anything, is a blank
            self._dispatched = self._remembered = confirmed

    def _put(self, turn: Sequence[Dispatched]) -> None:
        self._grown.update(dict.fromkeys(self.queues.put(turn)))
        if self.index is not None:
            self.index.put(turn)
        _, _, _, physical_offset, _, _, timestamp, _, _ = turn[-1]
        self._last_dispatch = (physical_offset, timestamp)

    def _dispatch_or_leave(self) -> None:
        """What is stored stays stored when its queue cannot grow: it waits for the next dispatch, and appends wait for that."""
        with suppress(DiskFullError, StoreIOError):
            self.dispatch()

    def take_grown(self) -> list[QueueKey]:
        """The queues that got messages since this was last called: whoever waits for those can read on."""
        grown = list(self._grown)
        self._grown.clear()
        return grown

    def _next_dispatches(self, confirmed: int) -> list[Dispatch]:
        remembered = self._undispatched
        if not remembered:
            return self._reread(self._dispatched, confirmed)
        if remembered[-1].end <= confirmed:
            return list(remembered)
        return [dispatch for dispatch in remembered if dispatch.end <= confirmed]

    def _past_blank(self, offset: int) -> int:
        """Where the next record is when `offset` is at a blank: the start of the next segment."""
        segment_bytes = self.config.segment_bytes
        return offset - offset % segment_bytes + segment_bytes if self.log.is_blank(offset) else offset

    def _reread(self, start: int, stop: int) -> list[Dispatch]:
        """From the log, what was too much to remember; one segment at the most."""
        start = max(self._past_blank(start), self.log.start)  # what was there may have expired
        segment_start = self.log.segments.start_of(start)
        if segment_start is None or start >= stop:
            return []
        view = self.log.segments.file(segment_start).view()[: stop - segment_start]
        found = [item for item in walk_segment(view, segment_start, start - segment_start) if isinstance(item, Found)]
        return [dispatch_of(item.record, item.size, self._delays_ms) for item in found if not is_filler(item.record)]

    # --- the checkpoint

    def begin_checkpoint(self) -> CheckpointJob:
        self._check_writable()
        checkpoint = Checkpoint(
            log_timestamp=self._flushed_timestamp,
            queue_timestamp=min(self._last_dispatch[1], self._flushed_timestamp),
            index_timestamp=self.index.last_timestamp if self.index is not None else 0,
            confirmed_offset=0,
            queue_physical_offset=min(self._last_dispatch[0], self.horizon.flushed),
            safe_end=self.horizon.flushed,
            dispatch_end=min(self._dispatched, self.horizon.flushed),
            queue_count=len(self.queues),
            entry_count=self.queues.entry_count,
        )
        paths = self.queues.take_dirty() + self._checksums.take_dirty()
        syncs: Iterable[Callable[[], None]] = self.index.begin_sync() if self.index is not None else []

        def sync_all() -> None:
            for path in paths:
                with suppress(FileNotFoundError):  # it may have expired meanwhile
                    self._files.sync(path)
            for sync in syncs:
                sync()

        return CheckpointJob(checkpoint, sync_all, self._checkpoint_file.write)

    def finish_checkpoint(self, job: CheckpointJob, error: OSError | None = None) -> None:
        """The job ran. A failed sync stops writes; a page that could not be written is written the next time."""
        if error is not None and job.is_synced:
            raise store_error("writing the checkpoint", error) from error
        if error is not None:
            self._stopped = f"{error.strerror or error}."
            raise WritesStoppedError(f"A checkpoint of {job.checkpoint.safe_end} failed ({error.strerror or error}).") from error

    def checkpoint(self) -> None:
        job = self.begin_checkpoint()
        try:
            job.run()
        except OSError as error:
            self.finish_checkpoint(job, error)
        self.finish_checkpoint(job)

    # --- how it is

    def earliest_timestamp(self) -> int:
        """When the oldest message was stored; -1 when there is none."""
        first = self.reading.record_at(self.log.start)
        return -1 if first is None else first.store_timestamp

    def used_percent(self) -> float:
        """How full the disk is."""
        try:
            return self._files.used_percent(self.paths.root)
        except OSError as error:
            raise store_error("asking how full the disk is", error) from error

    # --- retention

    def retain(self, now_ms: int, hour: int) -> Verdict:
        """Let go what may go, and refuse writes while the disk is too full. To be called every few seconds."""
        used_percent = self.used_percent()
        verdict = judge(self.config, self._last_stored(), now_ms, hour, used_percent)
        self._too_full = f"The disk is {used_percent:.0f} % full." if verdict.refuse_writes else None
        for _ in range(verdict.remove):
            self.expire_oldest()
        return verdict

    def _last_stored(self) -> list[int]:
        """When each finished segment got its last message: not after the first one of the next segment."""
        times = []
        for start in self.log.segments.starts[1:]:
            first = self.reading.record_at(start)
            if first is None:
                break
            times.append(first.store_timestamp)
        return times

    def expire_oldest(self) -> int:
        """Remove the log's first segment, and what queues, index and checksums have of it. The log's new start."""
        starts = self.log.segments.starts
        if len(starts) > 1 and starts[1] > self.horizon.flushed:
            if self._flushing:
                return self.log.start  # its file is being flushed: another time
            self.flush()
        if len(starts) > 1:
            try:
                self.log.segments.drop_first()
                self.queues.expire(self.log.start)
                if self.index is not None:
                    self.index.expire(self.log.start)
                self._checksums.expire(self.log.start)
            except OSError as error:
                raise store_error("removing expired files", error) from error
        return self.log.start
