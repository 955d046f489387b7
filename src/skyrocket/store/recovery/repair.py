"""Repair of consume queue entries that do not match the log.

Messages of a queue lie in the log in queue order. So the message of a wrong entry lies between the messages of its neighbours,
and only that range of the log is scanned. A message that is not found there is damaged itself, and its entry stays as it is.
"""

from __future__ import annotations

from skyrocket.protocol.message.record import Record
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.store.errors import UnreadableError
from skyrocket.store.log.commit_log import CommitLog
from skyrocket.store.log.scan import FoundRecord, walk_segment
from skyrocket.store.message import UNQUEUED, dispatch_request_of
from skyrocket.store.queues.consume_queue import ENTRY, ConsumeQueue, QueueEntry
from skyrocket.store.queues.deleted_topics import DeletedTopics

STRETCH_BYTES_MAX = 16 * 1024 * 1024  # of the log, scanned for one entry: a reader waits for it
BEYOND_REPAIR_MAX = 10_000  # entries remembered as lost


class QueueRepair:
    def __init__(self, log: CommitLog, deleted: DeletedTopics, delays_ms: tuple[int, ...]) -> None:
        self._log = log
        self._deleted = deleted
        self._delays_ms = delays_ms
        self._beyond_repair: set[tuple[str, int, int]] = set()

    def repair(self, queue: ConsumeQueue, topic: str, queue_id: int, queue_offset: int) -> QueueEntry | None:
        """Find the message of an entry, and write the entry again. Return it; None when the message is lost."""
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

    def forget(self) -> None:
        """Messages of the log are back: entries that were lost may be found."""
        self._beyond_repair.clear()

    def _find(self, queue: ConsumeQueue, topic: str, queue_id: int, queue_offset: int) -> FoundRecord | None:
        before = queue.entry(queue_offset - 1) if queue_offset > queue.min_offset else None
        behind = queue.entry(queue_offset + 1)
        start = max(self._log.start, self._deleted.position_of(topic))
        start = start if before is None else max(start, before.physical_offset + before.size)
        header_bytes = self._log.framing.header_bytes
        stop = self._log.end if behind is None else min(self._log.end, behind.physical_offset - header_bytes)
        if not start < stop <= start + STRETCH_BYTES_MAX:
            return None
        segment_bytes = self._log.segments.segment_bytes
        for segment_start in self._log.segments.starts:
            first, last = max(start, segment_start), min(stop, segment_start + segment_bytes)
            if first >= last:
                continue
            view = self._try_view(first, last - first)
            for item in walk_segment(view, first, framing=self._log.framing):
                if isinstance(item, FoundRecord) and _is_in(item.record, topic, queue_id, queue_offset):
                    return item
        return None

    def _try_view(self, offset: int, size: int) -> memoryview:
        """Return bytes of one segment; no bytes when the disk does not return them."""
        try:
            return self._log.view(offset, size) or memoryview(b"")
        except UnreadableError:
            return memoryview(b"")


def _is_in(record: Record, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Whether a record belongs at this offset of a queue. Half messages and rollbacks have offset 0 and are in no queue."""
    if record.sys_flag & TRANSACTION_MASK in UNQUEUED:
        return False
    return (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, queue_offset)
