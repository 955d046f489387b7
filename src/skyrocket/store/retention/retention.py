"""Retention of a store: segments that are too old, or for which the disk has no room, go with all that refers to them.

begin(…)            a job that measures and decides (`retention_job`); any thread runs it
finish(job)         refuses writes or takes them again, and gives up segments
run(…)              all of it, in this thread

`ExpiredFiles` deletes the files that were given up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from skyrocket.store.files import Files
from skyrocket.store.log.checksums import Checksums
from skyrocket.store.log.segment_ages import SegmentAges
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.queues.queue_minimums import find_minimums
from skyrocket.store.retention.expired_files import ExpiredFile, ExpiredFiles
from skyrocket.store.retention.retention_job import RetentionJob
from skyrocket.store.retention.retention_plan import SEGMENTS_AT_ONCE, RetentionPlan

if TYPE_CHECKING:
    from skyrocket.store.message_store import MessageStore


class Retention:
    def __init__(
        self, store: MessageStore, files: Files, checksums: Checksums, deleted: DeletedTopics, expired: ExpiredFiles
    ) -> None:
        self._store = store
        self._files = files
        self._checksums = checksums
        self._deleted = deleted
        self._expired = expired
        self._ages = SegmentAges(files, store.log.segments.path, store.log.framing)
        self.too_full: str | None = None  # why the store refuses writes until the disk has space again

    def begin(self, now_ms: int, hour: int) -> RetentionJob:
        """Return a job that measures the disk and the age of the oldest segments, and decides which of them go.

        A segment that is not on disk yet stays: its file may be being flushed. So does one that is not confirmed yet.
        """
        store = self._store
        safe_end = min(store.horizon.flushed, store.horizon.confirmed)
        starts = [start for start in store.log.segments.starts[: SEGMENTS_AT_ONCE + 1] if start <= safe_end]
        disks, queues = (store.paths.commit_log, store.paths.root), store.queues.all_queues()
        return RetentionJob(self._files, store.config, disks, self._ages, starts, queues, now_ms, hour)

    def finish(self, job: RetentionJob) -> RetentionPlan:
        """Carry out what the job has decided: refuse writes or take them again, and give up segments that go.

        `ExpiredFiles.remove_all` then deletes the files.
        """
        plan, store = job.plan, self._store
        limit = f"The store takes no messages above {store.config.disk_warning_percent} %."
        self.too_full = f"The disk is {job.used_percent:.0f} % full. {limit}" if plan.refuse_writes else None
        if not plan.remove or store.log.segments.starts[: plan.remove] != job.starts[: plan.remove]:
            return plan._replace(remove=0)
        queue_files = [file for queue, minimum in job.minimums for file in queue.raise_minimum(minimum)]
        queue_files += store.queues.expire_late(job.starts[plan.remove])
        self._expire_log(plan.remove)
        self._expired.add(queue_files)
        return plan

    def run(self, now_ms: int, hour: int) -> RetentionPlan:
        """Delete segments that may go, and refuse writes while the disk is too full, all in this thread."""
        job = self.begin(now_ms, hour)
        job.run()
        plan = self.finish(job)
        self._expired.remove_all()
        return plan

    def _expire_log(self, count: int) -> None:
        """Take the log's first segments out of the tables, with what index and checksums have of them.

        Their files are deleted before those of the queues: recovery expects every message of the log in its queue.
        """
        store = self._store
        self._expired.add(store.log.take_first(count))
        if store.index is not None:
            self._expired.add(store.index.expire(store.log.start))
        self._expired.add(self._checksums.expire(store.log.start))
        self._expired.add([ExpiredFile(path, None) for path in self._deleted.expire(store.log.start)])

    def begin_queue_cleanup(self) -> Callable[[], list[tuple[ConsumeQueue, int]]]:
        """Return a job that finds queue entries whose messages are no longer in the log."""
        return partial(find_minimums, self._files, self._store.queues.all_queues(), self._store.log.start)

    def finish_queue_cleanup(self, minimums: list[tuple[ConsumeQueue, int]]) -> None:
        """Give up the entries that the job has found. `ExpiredFiles.remove_all` then deletes their files."""
        files = [file for queue, minimum in minimums for file in queue.raise_minimum(minimum)]
        self._expired.add(files + self._store.queues.expire_late(self._store.log.start))
