"""The log of a slave: it grows by what the master sends, and gives up what the master does not have.

    append(run)                  whole records, at exactly the end of the log
    begin_at(offset)             an empty log starts at the segment that the master sends first
    begin_cut(offset) → job      any thread runs the job: it copies the tail of a segment to a directory of its own
    finish_cut(job)              whole segments are moved there; log, queues, index and checksums end at `offset`

Queue offsets, store times and physical offsets are those of the master, so the files become the same, byte for byte. Dispatch to
queues and index, flushes and checkpoints are those of any other store, behind the same horizon.

A crash during a cut is safe: the checkpoint claims nothing behind the cut before anything changes. The next start then finds a
log that ends there, or still has the tail, which is compared with the master again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyrocket.store.config import delay_levels_ms
from skyrocket.store.dispatch import CommitLogDispatcher
from skyrocket.store.errors import ReplicaDataError, WritesStoppedError, store_error
from skyrocket.store.files import Files
from skyrocket.store.late_writes import LateWrites
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.message import DispatchFields, dispatch_request_of
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.recovery.checkpoint import CheckpointFile
from skyrocket.store.replica.diverged import DivergedFiles
from skyrocket.store.replica.record_splitter import ReplicaRun

if TYPE_CHECKING:
    from skyrocket.store.message_store import MessageStore

_COPIED_BYTES = 4 * 1024 * 1024  # at once


@dataclass(frozen=True, slots=True)
class CutJob:
    """Copies the tail of the segment that stays. Whole segments behind it are moved later, which takes no time."""

    offset: int
    size: int  # of everything that is cut
    kept_in: str  # the directory that has it then
    run: Callable[[], None]


class ReplicaLog:
    def __init__(
        self,
        store: MessageStore,
        files: Files,
        checksums: Checksums,
        deleted: DeletedTopics,
        dispatcher: CommitLogDispatcher,
        late: LateWrites,
        checkpoint_file: CheckpointFile,
    ) -> None:
        self._store = store
        self._files = files
        self._checksums = checksums
        self._deleted = deleted
        self._dispatcher = dispatcher
        self._late = late
        self._checkpoint_file = checkpoint_file
        self._delays_ms = delay_levels_ms(store.config.delay_levels)

    def append(self, run: ReplicaRun) -> None:
        """Append whole records of the master. Raise StoreError when that is not possible now; then nothing is stored."""
        store, log = self._store, self._store.log
        store.append_position(0)
        if run.start != log.end:
            raise ReplicaDataError(f"The master sent bytes for the log at {run.start}, but the log ends at {log.end}.")
        written = log.append_replica(run.data, run.offsets, run.records_end)
        dispatches: list[DispatchFields] = []
        for one in run.messages:
            if not isinstance(one, FoundRecord):
                dispatches.append(one)
            elif not is_filler(one.record):
                dispatches.append(dispatch_request_of(one.record, one.size, self._delays_ms))
        if run.offsets:
            self._checksums.append(run.start, run.data, written.bounds())
        if dispatches:
            store.last_timestamp = max(store.last_timestamp, dispatches[-1][6])
        self._dispatcher.add(dispatches, run.start, store.horizon.append(log.end))
        self._late.relieve()

    def begin_at(self, offset: int) -> None:
        """Let the empty log start at `offset`, where a segment of the master starts."""
        try:
            self._store.log.begin_at(offset)
        except OSError as error:
            raise store_error(f"starting the log at {offset}", error) from error
        self._dispatcher.start_at(offset, 0, 0)
        self._store.horizon.append(offset)

    # --- cutting

    def begin_cut(self, offset: int) -> CutJob:
        """Return a job that copies what lies behind `offset`, as far as it cannot be moved."""
        log, files = self._store.log, self._files
        directory = self._free_directory(offset)
        diverged = DivergedFiles(files, self._store.paths.diverged)
        start = log.segments.start_of(offset)
        stop = log.end if start is None else min(log.end, start + log.segments.segment_bytes)

        def run() -> None:
            diverged.make_room(log.end - offset)
            if start is None or start == offset:
                return
            file = files.open(log.segments.path(start), writable=False)

            def pieces() -> Iterator[bytes]:
                for at in range(offset - start, stop - start, _COPIED_BYTES):
                    yield file.read(at, min(_COPIED_BYTES, stop - start - at))

            files.replace_with_backup(f"{directory}/{offset:020d}-{stop - offset}", pieces(), None)

        return CutJob(offset, log.end - offset, directory, run)

    def _free_directory(self, offset: int) -> str:
        numbers = [name.partition("-")[0] for name in self._files.names(self._store.paths.diverged)]
        number = 1 + max((int(number) for number in numbers if number.isdigit()), default=0)
        return f"{self._store.paths.diverged}/{number}-{offset:020d}"

    def finish_cut(self, job: CutJob) -> None:
        """Let log, queues, index and checksums end at the job's offset. No flush and no checkpoint may be under way."""
        store, offset = self._store, job.offset
        store.checkpoint()
        try:
            self._claim_less(offset)
            store.log.cut(offset, job.kept_in)
            store.queues.cut(offset)
            self._checksums.cut(offset)
            if store.index is not None:
                store.index.rebuild(offset)
            self._deleted.shorten(offset)
        except OSError as error:
            raise WritesStoppedError(f"The log could not be cut at {offset} ({error.strerror or error}).") from error
        self._dispatcher.cut(store.log.end)
        store.horizon.cut(store.log.end)
        self._late.start_at_mark()
        store.checkpoint()

    def _claim_less(self, offset: int) -> None:
        """Let the checkpoint claim nothing behind `offset`: recovery would take its absence for damage."""
        claimed = self._checkpoint_file.read()
        less = {
            "safe_end": min(claimed.safe_end or 0, offset),
            "dispatch_end": min(claimed.dispatch_end or 0, offset),
            "queue_physical_offset": min(claimed.queue_physical_offset, offset),
        }
        self._checkpoint_file.write(claimed._replace(queue_count=0, entry_count=0, **less))
