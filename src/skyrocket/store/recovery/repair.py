"""A wrong queue entry put right.

Messages of a queue lie in the log in the order of the queue, so the message whose entry is wrong lies between those of its
neighbours: that stretch of the log is walked, and nothing else. What is not found there is damaged itself, and stays passed over.
"""

from __future__ import annotations

from skyrocket.protocol.message.record import Record
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.scan import FoundRecord, walk_segment
from skyrocket.store.message import UNQUEUED, dispatch_request_of
from skyrocket.store.queues.consume_queue import ENTRY, ConsumeQueue, QueueEntry

STRETCH_BYTES_MAX = 16 * 1024 * 1024  # of the log, for one entry: a reader waits meanwhile
BEYOND_REPAIR_MAX = 10_000  # entries remembered as such


class QueueRepair:
    def __init__(self, log: CommitLog, delays_ms: tuple[int, ...]) -> None:
        self._log = log
        self._delays_ms = delays_ms
        self._beyond_repair: set[tuple[str, int, int]] = set()

    def repair(self, queue: ConsumeQueue, topic: str, queue_id: int, queue_offset: int) -> QueueEntry | None:
        """The entry as it should be, after it was written so; None when the log does not have its message."""
        key = (topic, queue_id, queue_offset)
        if key in self._beyond_repair:
            return None
        found = self._find(queue, topic, queue_id, queue_offset)
        if found is None:
            if len(self._beyond_repair) >= BEYOND_REPAIR_MAX:
                self._beyond_repair.clear()
            self._beyond_repair.add(key)
            return None
        dispatch = dispatch_request_of(found.record, found.size, self._delays_ms)
        entry = QueueEntry(found.offset, found.size, dispatch.tags_code)
        queue.replace(queue_offset, ENTRY.pack(*entry))
        return entry

    def _find(self, queue: ConsumeQueue, topic: str, queue_id: int, queue_offset: int) -> FoundRecord | None:
        before = queue.entry(queue_offset - 1) if queue_offset > queue.min_offset else None
        behind = queue.entry(queue_offset + 1)
        start = self._log.start if before is None else max(self._log.start, before.physical_offset + before.size)
        stop = self._log.end if behind is None else min(self._log.end, behind.physical_offset)
        if not start < stop <= start + STRETCH_BYTES_MAX:
            return None
        for segment_start in self._log.segments.starts:
            if segment_start + self._log.segments.segment_bytes <= start or segment_start >= stop:
                continue
            view = self._log.segments.file(segment_start).view()[: stop - segment_start]
            for item in walk_segment(view, segment_start, max(0, start - segment_start)):
                if isinstance(item, FoundRecord) and _is_in(item.record, topic, queue_id, queue_offset):
                    return item
        return None


def _is_in(record: Record, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Half messages and rollbacks all say offset 0, and are in no queue."""
    if record.sys_flag & TRANSACTION_MASK in UNQUEUED:
        return False
    return (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, queue_offset)
