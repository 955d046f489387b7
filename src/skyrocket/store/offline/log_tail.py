"""The tail of the log: messages that queues and index may not have yet, because a broker writes these late.

    commit log   | in queues and index, says the checkpoint | tail: perhaps not yet |
                                                            ^ dispatch end          ^ end of the log

Only the store of a running or killed skyrocket broker has a tail. Apache's checkpoint does not say where it would begin. The tail
is as long as what arrived since the last checkpoint, a second ago as a rule, and is read anew by each call.
"""

from __future__ import annotations

from collections.abc import Iterator

from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.store.log.scan import FoundRecord
from skyrocket.store.message import UNQUEUED, index_keys
from skyrocket.store.offline.offline_log import OfflineLog
from skyrocket.store.queues.consume_queues import QueueKey
from skyrocket.store.queues.deleted_topics import DeletedTopics


class LogTail:
    def __init__(self, log: OfflineLog, deleted: DeletedTopics, start: int | None) -> None:
        """`start` is the log offset before which queues and index have every message; None for a store without a tail."""
        self._log = log
        self._deleted = deleted
        self._start = start

    def _records(self, *, check: bool = True) -> Iterator[FoundRecord]:
        if self._start is None:
            return
        for item in self._log.walk(max(self._start, self._log.start), check=check):
            if isinstance(item, FoundRecord) and not self._deleted.covers(item.record.topic, item.offset):
                yield item

    def queued(self, topic: str, queue_id: int, queue_offset: int, *, check: bool = True) -> Iterator[FoundRecord]:
        """Yield the messages of a queue from a queue offset on, in order."""
        for found in self._records(check=check):
            record = found.record
            if (record.topic, record.queue_id) == (topic, queue_id) and record.queue_offset >= queue_offset and _is_queued(found):
                yield found

    def ranges(self) -> dict[QueueKey, tuple[int, int]]:
        """Return for each queue the first queue offset in the tail, and the one behind the last."""
        ranges: dict[QueueKey, tuple[int, int]] = {}
        for found in self._records(check=False):
            if _is_queued(found):
                key, offset = QueueKey(found.record.topic, found.record.queue_id), found.record.queue_offset
                first, _ = ranges.get(key, (offset, offset))
                ranges[key] = (first, offset + 1)
        return ranges

    def with_key(self, topic: str, key: str) -> list[int]:
        """Return the physical offsets of the messages with a key, newest first."""
        found = [each.offset for each in self._records() if each.record.topic == topic and _has_key(each, key)]
        return found[::-1]


def _is_queued(found: FoundRecord) -> bool:
    return found.record.sys_flag & TRANSACTION_MASK not in UNQUEUED


def _has_key(found: FoundRecord, key: str) -> bool:
    if found.record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return False
    return key in index_keys(decode_properties(found.record.properties))
