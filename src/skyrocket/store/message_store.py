"""The message store: commit log, consume queues, index and checksums of a broker, behind one object.

    append → [flush, replicas] → confirmed → queues, index → readable

An append writes the log only. Queues, index and checksums get their entries in memory, and their files late (`late_writes`).

A store belongs to one thread. Work that waits for the disk comes as a job (`begin_flush`, `begin_checkpoint`). Any thread may
call the job's `run`; the store's thread then reports the result with `finish_flush` or `finish_checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import chain
from pathlib import Path

from skyrocket.store.cold_reads import ColdReads
from skyrocket.store.config import CHECKSUM_FILES_MAX, LOG_FILES_MAX, StoreConfig, delay_levels_ms
from skyrocket.store.dispatch import CommitLogDispatcher
from skyrocket.store.errors import (
    DiskFullError,
    QueueNameError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    WritesStoppedError,
    store_error,
)
from skyrocket.store.files import Disk, Files, NotOpenedError, OpenFiles
from skyrocket.store.horizon import Horizon
from skyrocket.store.index.index import Index
from skyrocket.store.late_writes import LateWrites
from skyrocket.store.ledger.layout import check_plain
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.segment_scrub import ScrubTarget, find_scrub_target
from skyrocket.store.message import AppendPosition, AppendRequest, AppendResult, DispatchFields, dispatch_fields_of
from skyrocket.store.paths import StorePaths
from skyrocket.store.queues.consume_queues import ConsumeQueues, is_directory_name
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.read.reading import Reading
from skyrocket.store.recovery.checkpoint import Checkpoint, CheckpointFile
from skyrocket.store.recovery.recovery import Recovery
from skyrocket.store.recovery.recovery_result import RecoveryResult
from skyrocket.store.recovery.repair import QueueRepair
from skyrocket.store.replica.replica_log import ReplicaLog
from skyrocket.store.retention.expired_files import ExpiredFile, ExpiredFiles
from skyrocket.store.retention.retention import Retention
from skyrocket.store.sync_jobs import CheckpointJob, FlushJob

OUR_ABORT = b"skyrocket\n"  # Apache's broker writes its process id into this file; it never reads the content


class MessageStore:
    def __init__(
        self,
        root: Path | str,
        config: StoreConfig | None = None,
        *,
        files: Files | None = None,
        background: Executor | None = None,
        commit_log: Path | str | None = None,
        ledger_id: str | None = None,
    ) -> None:
        """`commit_log` is the directory of the log if it is not in `root`. `LedgerStore` gives its node's id.
        `background` creates log segments ahead of time; without it a segment is created when the log needs it."""
        self.config = config = config or StoreConfig()
        self.paths = StorePaths(root, commit_log, ledger_id=ledger_id)
        self._files = files or Disk()
        self._delays_ms = delay_levels_ms(self.config.delay_levels)
        self._log_files = OpenFiles(self._files, LOG_FILES_MAX)
        self._checksum_files = OpenFiles(self._files, CHECKSUM_FILES_MAX)
        self._queue_files = OpenFiles(self._files, self.config.open_files_max)
        self.reads = ColdReads()
        self.log = self._make_log(background)
        self.queues = ConsumeQueues(
            self._files, self._queue_files, self.paths.consume_queues, config.queue_entries_per_file, self.reads
        )
        self.index = (
            Index(self._files, self.paths.index, config.index_slots, config.index_entries, self.reads)
            if config.index_enabled
            else None
        )
        header_bytes = self.log.framing.header_bytes
        self._checksums = Checksums(
            self._files, self._checksum_files, self.paths.checksums, config.segment_bytes, self.reads, header_bytes
        )
        self._checkpoint_file = CheckpointFile(self._files, self.paths.checkpoint)
        self._deleted = DeletedTopics(self._files, self.paths.deleted_topics, self.paths.consume_queues)
        self._queue_repair = QueueRepair(self.log, self._deleted, self._delays_ms)
        self.reading = Reading(
            self.log, self.queues, self._deleted, self.index, self._checksums, self._queue_repair, lambda: self.horizon.confirmed
        )
        self.horizon = Horizon(0)
        self._dispatcher = CommitLogDispatcher(
            self.log, self.queues, self._deleted, self.index, self._delays_ms, config.undispatched_max
        )
        self._late = LateWrites(self._dispatcher, self.queues, self.index, self._checksums)
        self.replica = ReplicaLog(
            self, self._files, self._checksums, self._deleted, self._dispatcher, self._late, self._checkpoint_file
        )
        self.last_timestamp = 0  # of the last message; no later one gets an earlier time
        self._flushed_timestamp = 0
        self.is_flushing = False  # a flush job is under way
        self._stopped: str | None = None  # why the store refuses writes until it is opened again
        self.only_reads: str | None = None  # why it refuses messages until it is opened again
        self._release: Callable[[], None] | None = None  # releases the lock; None while the store is closed
        self.expired_files = ExpiredFiles(self._files)  # what the store has given up, until it is deleted
        self.retention = Retention(self, self._files, self._checksums, self._deleted, self.expired_files)

    def _make_log(self, background: Executor | None) -> CommitLog:
        directory, segment_bytes = self.paths.commit_log, self.config.segment_bytes
        return CommitLog(self._files, self._log_files, directory, segment_bytes, background, self.reads)

    # --- opening and closing

    def open(self) -> RecoveryResult:
        """Lock the directory and recover the store. The result says what recovery found, `sentences()` in words."""
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

    def _recover(self) -> RecoveryResult:
        self._check_layout()
        checkpoint = self._checkpoint_file.read()
        crashed = self._files.exists(self.paths.abort)
        is_ours = crashed and self._files.read(self.paths.abort) == OUR_ABORT
        self.log.load()
        checkpoint, crashed = self._distrust(checkpoint, crashed)
        self._deleted.load()

        def begin(until_done: Checkpoint) -> None:
            self._checksum_files.take_unsynced().sync()  # once the abort file is ours, recovery trusts all of them
            for directory in self._files.take_unsynced_directories():
                self._files.sync_directory(directory)
            if until_done != checkpoint:
                self._checkpoint_file.write(until_done)
            self._files.replace(self.paths.abort, OUR_ABORT)

        recovery = Recovery(
            files=self._files,
            log=self.log,
            queues=self.queues,
            deleted=self._deleted,
            index=self.index,
            checksums=self._checksums,
            damaged=self.paths.damaged,
            delays_ms=self._delays_ms,
            begin=begin,
        )
        visible_end = self._visible_end(checkpoint)
        done = recovery.run(checkpoint, crashed=crashed, is_ours=is_ours, visible_end=visible_end)
        self.horizon = self._start_horizon(done.visible_end)
        offset = done.last_offset or min(checkpoint.queue_physical_offset, done.visible_end)
        timestamp = done.last_timestamp if done.messages else checkpoint.queue_timestamp
        self._dispatcher.start_at(done.visible_end, offset, done.visible_timestamp or min(checkpoint.queue_timestamp, timestamp))
        self._late.start_at_mark()
        self.last_timestamp = self._flushed_timestamp = timestamp
        self.reading.set_opened_at(self.log.end)
        is_distrusted = self._files.exists(self.paths.sync_failed)
        if is_distrusted:
            done.rewritten_bytes = self.log.rewrite(checkpoint.safe_end or self.log.start)
        self.log.sync(done.walked_from, self.log.end)
        self.checkpoint()
        if is_distrusted:
            self._files.remove(self.paths.sync_failed)
        with suppress(StoreError, OSError):  # what cannot be removed now is removed later
            self.expired_files.remove_all()  # queues of deleted topics
            self._deleted.sweep(self.log.start)
        return done

    def _check_layout(self) -> None:
        check_plain(self._files, self.paths)

    def _distrust(self, checkpoint: Checkpoint, crashed: bool) -> tuple[Checkpoint, bool]:
        """Return from where the log is read, and whether all of it is looked at."""
        return checkpoint, crashed

    def _visible_end(self, _checkpoint: Checkpoint) -> int | None:
        """Return the log offset from which on messages are not confirmed; None when all of them are."""
        return None

    def _start_horizon(self, visible_end: int) -> Horizon:
        return Horizon(visible_end, ("flushed",) if self.config.sync_flush else ())

    def close(self) -> None:
        """Flush, write the checkpoint and remove the abort file. After a failed flush, leave the directory as after a crash."""
        if self._release is None:
            return
        try:
            self.log.close()
            if self._stopped is None and self.only_reads is None:
                self.log.scrub()
                self.flush()
                self.dispatch()
                self.checkpoint()
                self._files.remove(self.paths.abort)
            with suppress(StoreError):  # what cannot be deleted is loaded, and expires again
                self.expired_files.remove_all()
        except OSError as error:
            raise store_error(f"closing the store in {self.paths.root}", error) from error
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self.index is not None:
            self.index.close()
        for opened in (self._log_files, self._checksum_files, self._queue_files):
            opened.close()
        if self._release is not None:
            self._release()
            self._release = None

    # --- writing

    def append(self, messages: Sequence[AppendRequest], now_ms: int) -> list[AppendResult]:
        """Append messages to the log, all or none. They must not be acknowledged before `horizon.confirmed` has passed them."""
        timestamp, log_end_before = self.append_position(now_ms).timestamp, self.log.end
        if not messages:
            return []
        queue_offsets, taken = self.queues.take_offsets(messages)
        try:
            written = self.log.append([message.record for message in messages], queue_offsets, timestamp)
        except WritesStoppedError as error:
            self._stop(str(error))
            raise
        sizes = [len(message.record) for message in messages]
        for run in written:
            if run.offsets:
                self._checksums.append(run.start, run.data, run.bounds())
        offsets = chain.from_iterable([run.offsets for run in written])
        placed = list(map(AppendResult._make, zip(queue_offsets, offsets, sizes, strict=True)))
        dispatches = dispatch_fields_of(messages, placed, timestamp, self._delays_ms)
        self._finish_append(dispatches, taken, timestamp, log_end_before)
        return placed

    def append_position(self, now_ms: int) -> AppendPosition:
        """Return where the next record goes. Raise an error when the store cannot append now."""
        self._check_writable()
        self._check_room()
        if self._late.is_behind:
            self._late.write_all()  # if a queue cannot grow, fail before anything is stored
        if self._dispatcher.end < self.horizon.confirmed:
            self.dispatch()
        timestamp = max(now_ms, self.last_timestamp)  # store times never go back: searches by time rely on it
        log, header_bytes = self.log, self.log.framing.header_bytes
        return tuple.__new__(AppendPosition, (log.end + header_bytes, log.room_bytes(), timestamp, header_bytes))

    def append_encoded(
        self,
        opening: AppendPosition,
        data: bytes,
        dispatches: Sequence[DispatchFields],
        taken: dict[tuple[str, int], int],
        on_logged: Callable[[], None] | None = None,
    ) -> None:
        """Append records that the caller has already encoded with their offsets, all or none.

        `data` holds the records one after another, and nothing else. They lie in the log from `opening` on, with as many bytes
        between two of them as `opening` says. `dispatches` has what queues and index need of each record; `taken` has the next
        free offset of each queue. `on_logged` is called when the log has the records and the horizon counts them, before queues
        and index get their entries.
        """
        log_end_before = self.log.end
        assert opening.position == log_end_before + opening.header_bytes, "something was appended since append_position()"
        try:
            written = self.log.append_encoded(data, [one[3] for one in dispatches])
        except WritesStoppedError as error:
            self._stop(str(error))
            raise
        self._checksums.append(written.start, written.data, written.bounds())
        self._finish_append(dispatches, taken, opening.timestamp, log_end_before, on_logged)

    def _finish_append(
        self,
        dispatches: Sequence[DispatchFields],
        taken: dict[tuple[str, int], int],
        timestamp: int,
        log_end_before: int,
        on_logged: Callable[[], None] | None = None,
    ) -> None:
        """Account for records that are in the log now, and dispatch those that are confirmed."""
        self.queues.reserve_offsets(taken)
        self.last_timestamp = timestamp
        confirmed = self.horizon.append(self.log.end)
        if on_logged is not None:
            on_logged()
        self._dispatcher.add(dispatches, log_end_before, confirmed)
        self._late.relieve()

    def _check_writable(self) -> None:
        if self._release is None:
            raise StoreClosedError(f"The store in {self.paths.root} is closed.")
        if self._stopped is not None:
            raise WritesStoppedError(f"The store takes no messages since a flush failed: {self._stopped}")

    def _stop(self, reason: str) -> None:
        """Take no more messages, because a sync failed. The next start must not believe what it reads from the page cache."""
        self._stopped = reason
        with suppress(OSError):  # a disk that fails may fail here, too
            self._files.replace(self.paths.sync_failed, f"{reason}\n".encode())

    def only_read(self, why: str) -> None:
        """Refuse messages until the store is opened again, and leave the directory as it is: its changes are in memory."""
        self.only_reads = why

    def _check_room(self) -> None:
        if (why := self.only_reads or self.retention.too_full) is not None:
            raise DiskFullError(why)

    @property
    def refusal(self) -> str | None:
        """Why the store takes no messages now; None when it takes them."""
        return self._stopped or self.only_reads or self.retention.too_full

    # --- flushing

    def begin_flush(self) -> FlushJob | None:
        """Return a job that syncs everything appended so far; None when all of it is on disk."""
        self._check_writable()
        position = self.horizon.appended
        if position <= self.horizon.flushed:
            return None
        self.is_flushing = True
        return FlushJob(position, self.last_timestamp, self._log_files.take_unsynced())

    def finish_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        """Report that the job has run. After a failed sync the store takes no more writes.

        A file that could not be opened is left to the next flush.
        A failed fsync is never retried: it is unknown what reached the disk, and the kernel may drop the dirty pages.
        """
        self.is_flushing = False
        if isinstance(error, NotOpenedError):
            self._log_files.put_back(job.unsynced)
            raise store_error(f"flushing the log up to {job.position}", error) from error
        if error is not None:
            self._stop(f"{error.strerror or error}.")
            raise WritesStoppedError(f"A flush failed ({error.strerror or error}); the store takes no more messages.") from error
        self._flushed_timestamp = max(job.timestamp, self._flushed_timestamp)
        self._dispatcher.dispatch_or_postpone(self.horizon.flush(job.position))
        self._late.relieve()

    def stop_writes(self, why: str) -> WritesStoppedError:
        """Refuse messages from now on, until the store is opened again. Return the error that says so."""
        self._stopped = self._stopped or why
        return WritesStoppedError(f"The store takes no more messages: {self._stopped}")

    def flush(self) -> None:
        """Sync everything appended so far, in this thread."""
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
        """Put confirmed messages into queues and index. An error leaves the rest for the next call."""
        self._dispatcher.dispatch(self.horizon.confirmed)

    def reach(self, need: str, position: int) -> None:
        """Record that a requirement of the horizon has everything before `position`, and dispatch what is confirmed."""
        self._dispatcher.dispatch_or_postpone(self.horizon.reach(need, position))
        self._late.relieve()

    def take_grown(self) -> list[tuple[str, int]]:
        """Return the queues that got messages since the last call: pulls that wait for them can be answered."""
        return self._dispatcher.take_grown()

    def delete_topic(self, topic: str, before: int | None = None) -> Callable[[], None]:
        """Delete the queues of a topic. Its messages stay in the log until they expire, and never come back into a queue.

        With `before`, only messages before that position of the log: the queues must have no others.

        Return a job that makes the deletion survive a power failure. Any thread may run it.
        """
        if not is_directory_name((topic, 0)):
            raise QueueNameError(f"Topic {topic!r} cannot be the name of a directory.")
        with suppress(StoreError):  # it is the move of their directory that deletes a topic
            self.queues.ensure_directory(topic)
        try:
            sync = self._deleted.delete(topic, self.log.end if before is None else before)
        except OSError as error:
            raise store_error(f"removing the queues of {topic}", error) from error
        self._late.forget_queues(*self.queues.forget_topic(topic))

        def run() -> None:
            try:
                sync()
            except OSError as error:
                raise store_error(f"recording that {topic} was deleted", error) from error

        return run

    # --- the checkpoint

    def write_late(self) -> bool:
        """Write some of the entries that wait in memory. Return whether everything is written that waited at the first call.

        `begin_checkpoint` may follow then. An error leaves the entries for the next call.
        """
        self._check_writable()
        return self._late.write_some()

    def begin_checkpoint(self) -> CheckpointJob:
        """Return a job that syncs queues, index and checksums and then writes the checkpoint.

        The checkpoint claims what the last round of late writes has written. Without one since the last checkpoint, everything
        is written now.
        """
        self._check_writable()
        # Not more than what is confirmed: a node of a group may cut the rest, and write other messages there.
        safe_end = min(self.horizon.flushed, self.horizon.confirmed)
        checkpoint = self._late.claim(safe_end, self._flushed_timestamp)
        return CheckpointJob(
            checkpoint,
            self._files,
            self._queue_files.take_unsynced(),
            self._checksum_files.take_unsynced(),
            self._files.take_unsynced_directories(),
            self.index.begin_sync() if self.index is not None else [],
            self._checkpoint_file.write,
            self._deleted.take_unremoved(),
        )

    def finish_checkpoint(self, job: CheckpointJob, error: OSError | None = None) -> None:
        """Report that the job has run. A failed sync stops writes.

        What could not be opened, or a page that could not be written, is left to the next job.
        """
        if error is None:
            self.expired_files.add([ExpiredFile(path, None) for path in job.uncounted])
            return
        self._deleted.put_back(job.uncounted)
        if isinstance(error, NotOpenedError):
            self._queue_files.put_back(job.queues)
            self._checksum_files.put_back(job.checksums)
            self._files.put_back_unsynced_directories(job.directories)
            raise store_error("syncing queues and checksums", error) from error
        if job.is_synced:
            raise store_error("writing the checkpoint", error) from error
        self._stop(f"{error.strerror or error}.")
        raise WritesStoppedError(f"A checkpoint of {job.checkpoint.safe_end} failed ({error.strerror or error}).") from error

    def checkpoint(self) -> None:
        """Write a checkpoint of everything, in this thread."""
        self._late.write_all()
        job = self.begin_checkpoint()
        try:
            job.run()
        except OSError as error:
            self.finish_checkpoint(job, error)
        self.finish_checkpoint(job)

    # --- state

    def used_percent(self, path: str | None = None) -> float:
        """Return how full the disk of the commit log is, as `df` counts; or the one of another path."""
        try:
            return self._files.used_percent(path or self.paths.commit_log)
        except OSError as error:
            raise store_error("measuring the used disk space", error) from error

    def next_scrub_target(self, after: int) -> ScrubTarget | None:
        """Return the first closed segment that starts behind `after` and is on disk; None when there is none."""
        return find_scrub_target(self.log, self._checksums, self.horizon.flushed, after)
