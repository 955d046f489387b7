"""A store directory, opened read-only: ours or Apache's, closed or in use by a broker.

    records(offset)                     all messages, in order of arrival
    records_since(timestamp)            messages stored at or after a time
    queue_records(topic, queue, n)      messages of one queue, from a queue offset on
    query(topic, key)                   messages by key, newest first
    queues()                            all queues with their offsets

The log of a node of a DLedger group (`dledger-n0/data`) is read up to its last entry. The last ones may be entries that the
group has not confirmed yet.

Reads return exactly what was written. A range that cannot be read is skipped and reported to `on_damage`, once. A message that is
being written at the time of the read does not count yet, and one that was deleted with its topic no more. A broker writes queues
and index late: while it runs, and after it was killed, their newest messages come from the log (`log_tail`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.store.errors import StoreFormatError, store_error
from skyrocket.store.files import Disk, OpenFiles
from skyrocket.store.ledger.entry_framing import FRAMED
from skyrocket.store.ledger.layout import find_paths
from skyrocket.store.log.scan import PLAIN, DamagedRange, FoundRecord, LogEnd
from skyrocket.store.message import index_keys
from skyrocket.store.offline.log_tail import LogTail
from skyrocket.store.offline.offline_index import IndexSizes, OfflineIndex
from skyrocket.store.offline.offline_log import OfflineLog
from skyrocket.store.offline.offline_queue import OfflineQueue
from skyrocket.store.queues.consume_queues import QueueKey
from skyrocket.store.queues.deleted_topics import DeletedTopics
from skyrocket.store.recovery.checkpoint import Checkpoint, CheckpointFile

OPEN_QUEUE_FILES_MAX = 256
EVER_MS = 2**63 - 1

OnDamage = Callable[[DamagedRange], None]


class OfflineQueueRange(NamedTuple):
    """A queue and the offsets of its messages: from `min_offset` up to, but not including, `max_offset`."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int


class OfflineStore:
    def __init__(self, path: Path | str, *, commit_log: Path | str | None = None, index_sizes: IndexSizes | None = None) -> None:
        """`commit_log` is the directory of the log if it is not in `path`.

        `index_sizes` are needed only when they cannot be inferred from the files.
        """
        self._files = Disk()
        try:
            self.paths = find_paths(self._files, path, commit_log)
            if not (self._files.exists(self.paths.commit_log) or self._files.exists(self.paths.checkpoint)):
                raise StoreFormatError(f"{self.paths.root} is not a store: it has neither 'commitlog' nor 'checkpoint'.")
            self.is_open = self._files.exists(self.paths.abort)  # or was open when its broker was killed
            self.checkpoint: Checkpoint = CheckpointFile(self._files, self.paths.checkpoint).read()
            framing = PLAIN if self.paths.ledger_id is None else FRAMED
            self.log = OfflineLog(self._files, self.paths.commit_log, framing)
            if self.checkpoint.safe_end:
                self.log.trust(self.paths.checksums, self.checkpoint.safe_end)
            self.deleted = DeletedTopics(self._files, self.paths.deleted_topics, self.paths.consume_queues)
            self.deleted.load()
        except OSError as error:
            raise store_error(f"opening the store in {path}", error) from error
        self.index = OfflineIndex(self._files, self.paths.index, index_sizes)
        self._tail = LogTail(self.log, self.deleted, self.checkpoint.dispatch_end if self.is_open else None)
        self._queue_files = OpenFiles(self._files, OPEN_QUEUE_FILES_MAX, writable=False)

    def __enter__(self) -> OfflineStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.log.close()
        self._queue_files.close()

    # --- by physical offset

    def items(self, offset: int = 0, *, check: bool = True) -> Iterator[FoundRecord | DamagedRange | LogEnd]:
        """Yield messages and damaged ranges from a physical offset on, or from the first message behind it.

        The last item is a LogEnd.
        """
        return self.log.walk(self.log.boundary(offset), check=check)

    def records(self, offset: int = 0, *, on_damage: OnDamage | None = None, check: bool = True) -> Iterator[FoundRecord]:
        """Yield messages from a physical offset on, without those that were deleted with their topic."""
        for item in self.items(offset, check=check):
            if isinstance(item, FoundRecord):
                if not self.deleted.covers(item.record.topic, item.offset):
                    yield item
            elif isinstance(item, DamagedRange) and on_damage is not None:
                on_damage(item)

    def records_since(self, timestamp: int, *, on_damage: OnDamage | None = None, check: bool = True) -> Iterator[FoundRecord]:
        """Yield messages stored at or after `timestamp`, in milliseconds."""
        for found in self.records(self.log.first_since(timestamp), on_damage=on_damage, check=check):
            if found.record.store_timestamp >= timestamp:
                yield found

    # --- by queue

    def queues(self) -> list[OfflineQueueRange]:
        """Return the ranges of all queues, also of those that have no file yet."""
        ranges = {
            key: OfflineQueueRange(*key, queue.min_offset(self.log.start), queue.max_offset)
            for key in self.queue_keys()
            if (queue := self.queue(*key)) is not None
        }
        for key, (first, stop) in self._tail.ranges().items():
            known = ranges.get(key)
            least, most = (first, stop) if known is None else (known.min_offset, max(known.max_offset, stop))
            ranges[key] = OfflineQueueRange(*key, least, most)
        return [ranges[key] for key in sorted(ranges)]

    def queue_keys(self) -> list[QueueKey]:
        directory = self.paths.consume_queues
        return sorted(
            QueueKey(topic, int(name))
            for topic in self._names(directory)
            for name in self._names(f"{directory}/{topic}")
            if name.isascii() and name.isdigit()
        )

    def queue(self, topic: str, queue_id: int) -> OfflineQueue | None:
        if "/" in topic or topic in ("", ".", ".."):
            return None  # the path would lead to another directory
        directory = f"{self.paths.consume_queues}/{topic}/{queue_id}"
        if not self._files.exists(directory):
            return None
        return OfflineQueue(self._files, self._queue_files, directory)

    def queue_records(
        self, topic: str, queue_id: int, offset: int = 0, *, on_damage: OnDamage | None = None, check: bool = True
    ) -> Iterator[FoundRecord]:
        """Yield messages of one queue from a queue offset on. A queue entry that does not match the log counts as damage."""
        queue = self.queue(topic, queue_id)
        if queue is not None:
            for queue_offset, entry in queue.entries(max(offset, queue.min_offset(self.log.start))):
                found = self.log.record_at(entry.physical_offset, check=check)
                if found is not None and matches_entry(found, topic, queue_id, queue_offset, entry.size):
                    yield found
                elif on_damage is not None:
                    on_damage(DamagedRange(entry.physical_offset, entry.size))
            offset = max(offset, queue.max_offset)
        yield from self._tail.queued(topic, queue_id, offset, check=check)

    def queue_offset_since(self, topic: str, queue_id: int, timestamp: int) -> int:
        """Return the offset of the first message stored at or after `timestamp`; the maximum offset when there is none."""
        queue = self.queue(topic, queue_id)
        low, high = (0, 0) if queue is None else (queue.min_offset(self.log.start), queue.max_offset)
        stop = high
        while queue is not None and low < high:
            middle = (low + high) // 2
            is_before = self._store_timestamp_at(queue, middle) < timestamp
            low, high = (middle + 1, high) if is_before else (low, middle)
        if low < stop:
            return low
        for found in self._tail.queued(topic, queue_id, low, check=False):
            if found.record.store_timestamp >= timestamp:
                return found.record.queue_offset
            low = found.record.queue_offset + 1
        return low

    def _store_timestamp_at(self, queue: OfflineQueue, queue_offset: int) -> int:
        """Return the store time of a message. One that cannot be read gets the time of the next, so that a search can go on."""
        for _, entry in queue.entries(queue_offset):
            found = self.log.record_at(entry.physical_offset, check=False)
            if found is not None:
                return found.record.store_timestamp
        return EVER_MS

    # --- by key

    def query(self, topic: str, key: str, begin_ms: int = 0, end_ms: int = EVER_MS) -> Iterator[FoundRecord]:
        """Yield messages of a topic that have a key or unique key and were stored in this time range, newest first."""
        seen: set[int] = set()
        for offset in chain(self._tail.with_key(topic, key), self.index.find(topic, key, begin_ms, end_ms)):
            if offset in seen or self.deleted.covers(topic, offset):
                continue
            seen.add(offset)
            found = self.log.record_at(offset)
            if found is None or found.record.topic != topic or not begin_ms <= found.record.store_timestamp <= end_ms:
                continue
            if key in index_keys(properties_of(found.record)):
                yield found

    def _names(self, directory: str) -> list[str]:
        try:
            return self._files.names(directory)
        except NotADirectoryError:
            return []
        except OSError as error:
            raise store_error(f"reading {directory}", error) from error


def matches_entry(found: FoundRecord, topic: str, queue_id: int, queue_offset: int, size: int) -> bool:
    """Whether this is the message that a queue entry points at."""
    record = found.record
    return (record.topic, record.queue_id, record.queue_offset, found.size) == (topic, queue_id, queue_offset, size)


def properties_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)


def message_id(record: Record, properties: dict[str, str]) -> str:
    """Return the message id that users see: the producer's unique key, or the offset id of a message without one."""
    return properties.get(UNIQUE_KEY) or encode_offset_id(record.store_host, record.physical_offset)
