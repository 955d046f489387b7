"""One round of retention, in a thread: measure the disk and the oldest segments, decide, and find what the queues lose.

    store's thread    Retention.begin
    any thread        RetentionJob.run: used space, ages of up to ten segments, the plan, new minimums of the queues
    store's thread    Retention.finish: raise the minimums, then take the segments out of the tables
    any thread        ExpiredFiles.remove_all: unlink

The queues lose their entries before the log loses the messages: a reader never finds an entry without its message.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import store_error
from skyrocket.store.files import Files
from skyrocket.store.log.segment_ages import SegmentAges
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.queues.queue_minimums import find_minimums
from skyrocket.store.retention.retention_plan import RetentionPlan, plan_retention


class RetentionJob:
    def __init__(
        self,
        files: Files,
        config: StoreConfig,
        disks: Sequence[str],
        ages: SegmentAges,
        starts: list[int],
        queues: Sequence[ConsumeQueue],
        now_ms: int,
        hour: int,
    ) -> None:
        """`disks` are paths on the disks of the store: the fullest counts. The last of `starts` is a segment that stays."""
        self._files = files
        self._config = config
        self._disks = disks
        self._ages = ages
        self._queues = queues
        self._now_ms = now_ms
        self._hour = hour
        self.starts = starts
        self.used_percent = 0.0
        self.plan = RetentionPlan(0, refuse_writes=False, reason="")
        self.minimums: list[tuple[ConsumeQueue, int]] = []  # queues that lose messages, and their new minimum offsets

    def run(self) -> None:
        """Decide. Any thread may call this; it changes nothing."""
        try:
            self.used_percent = max(map(self._files.used_percent, self._disks))
        except OSError as error:
            raise store_error("measuring the used disk space", error) from error
        last_stored_ms = self._ages.last_stored_ms(self.starts, self._now_ms)
        self.plan = plan_retention(self._config, last_stored_ms, self._now_ms, self._hour, self.used_percent)
        if self.plan.remove:
            self.minimums = find_minimums(self._files, self._queues, self.starts[self.plan.remove])
