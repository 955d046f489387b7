"""Plans the partitions of a read from store directories: divides each directory among Spark tasks.

The commit log is cut at segment borders and, inside a segment, at records that a consume queue points to: a queue entry proves
that a record starts there, without a scan of the log. If the wanted topics are a small part of the log, tasks read their consume
queues instead of the log. Parts outside the wanted time are left out, by the store time of the first message after each cut.

A growing log is read up to the end that it had when the job was planned. Otherwise a task would follow the broker without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from skyrocket.columnar.entries import find_entry_starts
from skyrocket.columnar.rows import START_BYTES, find_record_starts
from skyrocket.protocol.bodies import TopicConfigSerializeWrapper
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.system_names import MEMBER_SYNC_PREFIX
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.store_options import DAMAGE, StoreOptions
from skyrocket.store.errors import StoreFormatError
from skyrocket.store.log.scan import DamagedRange, LogEnd
from skyrocket.store.offline.offline_queue import OfflineQueue
from skyrocket.store.offline.offline_store import EVER_MS, OfflineQueueRange, OfflineStore
from skyrocket.store.queues.consume_queue import ENTRY_BYTES

CUT_QUEUES_MAX: Final = 16  # the longest queues, searched for a record near a cut
LISTED_QUEUES_MAX: Final = 1024  # queues compared to find the longest
SAMPLES: Final = 16  # entries of a queue, for the mean size of its messages
_RECORDS_MAX: Final = 65_536  # records skipped at once
_PAGE_BYTES: Final = 4096  # what reading a single message costs beyond its own size


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """The messages whose records start in the commit log from `start` up to, but not including, `stop`."""

    path: str
    broker: str
    start: int
    stop: int


@dataclass(frozen=True)
class StoreQueuePartition(InputPartition):
    """The messages of these ranges of consume queues."""

    path: str
    broker: str
    ranges: tuple[OfflineQueueRange, ...]


def plan_store_partitions(options: StoreOptions) -> list[InputPartition]:
    """Return the partitions of all directories."""
    parts: list[InputPartition] = []
    for path in options.paths:
        try:
            with OfflineStore(path) as store:
                broker = options.broker or broker_name(store)
                parts += _plan_store(store, options, broker)
        except StoreFormatError as error:
            raise OptionError(f"Option 'path' names a directory that cannot be read: {error}") from error
    return parts


def broker_name(store: OfflineStore) -> str:
    """Return the broker's name, from the system topics that a broker creates; otherwise the directory's name."""
    root = PurePath(store.paths.root)
    try:
        with open(f"{store.paths.config}/topics.json", "rb") as file:  # noqa: PTH123 — a path of StorePaths is text
            topics = decode(file.read(), TopicConfigSerializeWrapper).topic_config_table or {}
    except (OSError, BodyError):
        return root.name  # messages can be read without the settings files, too
    names = [topic.removeprefix(MEMBER_SYNC_PREFIX) for topic in topics if topic.startswith(MEMBER_SYNC_PREFIX)]
    return names[0] if len(names) == 1 else root.name


def _plan_store(store: OfflineStore, options: StoreOptions, broker: str) -> Iterator[InputPartition]:
    path, scan_from = store.paths.root, 0
    if options.topics and options.mode != DAMAGE:
        queues = [(key.topic, key.queue_id) for key in store.queue_keys() if key.topic in options.topics]
        measured = [_MeasuredRange.of(store, topic, queue_id) for topic, queue_id in queues]
        if store.queue_keys() and sum(each.cost_bytes for each in measured) < len(store.log.starts) * store.log.segment_bytes:
            scan_from = dispatched_until(store)
            ranges = _queue_ranges(store, measured, scan_from, options)
            yield from (StoreQueuePartition(path, broker, group) for group in _group_ranges(ranges, options.part_bytes_max))
    for start, stop in _log_ranges(store, scan_from, options):
        yield LogPartition(path, broker, start, stop)


# --- by queue


class _MeasuredRange(NamedTuple):
    """A range of a consume queue, and the mean size of its messages."""

    range: OfflineQueueRange
    message_bytes: int

    @classmethod
    def of(cls, store: OfflineStore, topic: str, queue_id: int) -> _MeasuredRange:
        queue = store.queue(topic, queue_id)
        if queue is None:
            return cls(OfflineQueueRange(topic, queue_id, 0, 0), 1)
        first, stop = queue.min_offset(store.log.start), queue.max_offset
        step = max(1, (stop - first) // SAMPLES)
        sizes = [entry.size for offset in range(first, stop, step) if (entry := queue.entry(offset)) is not None]
        return cls(OfflineQueueRange(topic, queue_id, first, stop), max(1, sum(sizes) // max(1, len(sizes))))

    @property
    def cost_bytes(self) -> int:
        return (self.range.max_offset - self.range.min_offset) * (self.message_bytes + _PAGE_BYTES)


def dispatched_until(store: OfflineStore) -> int:
    """Return the log offset up to which consume queues certainly have every message. Tasks read the rest from the log."""
    if not store.is_open:
        return EVER_MS  # the store was closed cleanly
    checkpoint = store.checkpoint
    if checkpoint.dispatch_end is not None:
        return checkpoint.dispatch_end
    return store.log.first_since(checkpoint.queue_timestamp)


def _queue_ranges(
    store: OfflineStore, measured: Iterable[_MeasuredRange], stop_at: int, options: StoreOptions
) -> Iterator[_MeasuredRange]:
    """Yield the parts of each queue within the wanted time and before `stop_at`, none larger than one task."""
    for (topic, queue_id, first, stop), message_bytes in measured:
        queue = store.queue(topic, queue_id)
        if queue is None:
            continue
        if stop_at != EVER_MS:
            stop = first_entry_at(queue, stop_at)  # noqa: PLW2901
        if options.begin_ms > 0:
            first = max(first, store.queue_offset_since(topic, queue_id, options.begin_ms))  # noqa: PLW2901
        if options.end_ms != EVER_MS:
            stop = min(stop, store.queue_offset_since(topic, queue_id, options.end_ms))  # noqa: PLW2901
        step = max(1, options.part_bytes_max // message_bytes)
        for begin in range(first, stop, step):
            yield _MeasuredRange(OfflineQueueRange(topic, queue_id, begin, min(stop, begin + step)), message_bytes)


def _group_ranges(ranges: Iterable[_MeasuredRange], part_bytes_max: int) -> Iterator[tuple[OfflineQueueRange, ...]]:
    """Combine short ranges until they fill a partition."""
    group: list[OfflineQueueRange] = []
    size = 0
    for each, message_bytes in ranges:
        each_bytes = (each.max_offset - each.min_offset) * message_bytes
        if group and size + each_bytes > part_bytes_max:
            yield tuple(group)
            group, size = [], 0
        group.append(each)
        size += each_bytes
    if group:
        yield tuple(group)


def first_entry_at(queue: OfflineQueue, physical_offset: int) -> int:
    """Return the queue offset of the first message at or after an offset of the commit log."""
    low, high = queue.starts[0] // ENTRY_BYTES if queue.starts else 0, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        entry = queue.entry(middle)
        is_before = entry is None or entry.physical_offset < physical_offset
        low, high = (middle + 1, high) if is_before else (low, middle)
    return low


# --- by log offset


def _log_ranges(store: OfflineStore, scan_from: int, options: StoreOptions) -> Iterator[tuple[int, int]]:
    queues = _longest_queues(store)
    cuts = _cuts(store, queues, scan_from, options.part_bytes_max)
    if not cuts:
        return
    end = log_end(store, queues)
    cuts = [cut for cut in cuts if cut < end]
    times = [_stored_at(store, cut) for cut in cuts]
    for index, start in enumerate(cuts):
        is_last = index + 1 == len(cuts)
        time, following = times[index], None if is_last else times[index + 1]
        if time is not None and time >= options.end_ms:
            return  # store times never decrease
        if following is not None and following < options.begin_ms:
            continue
        yield start, end if is_last else cuts[index + 1]


def log_end(store: OfflineStore, queues: Sequence[OfflineQueue]) -> int:
    """Return where the log ends now. The scan starts after the last record that a consume queue points to."""
    log = store.log
    at = max((each for queue in queues if (each := _end_of_last(store, queue)) is not None), default=log.start)
    if at == log.start:
        at = next((start for start in reversed(log.starts) if log.first_of(start) is not None), log.start)
    while True:
        segment_start = log.start_of(at)
        view = None if segment_start is None else log.segment(segment_start)
        if segment_start is not None and view is not None:
            find = find_entry_starts if log.framing.header_bytes else find_record_starts
            starts, end_at = find(view, at - segment_start, len(view), _RECORDS_MAX)
            at = segment_start + end_at
            if len(starts) == _RECORDS_MAX * START_BYTES:
                continue
        item = next(iter(log.walk(at, check=False)))
        if isinstance(item, LogEnd):
            return item.offset
        if not isinstance(item, DamagedRange) and item.offset == at + log.framing.header_bytes:
            return at  # the broker appended this record during the scan
        at = item.offset + item.size


def _end_of_last(store: OfflineStore, queue: OfflineQueue) -> int | None:
    """Return the end of the last record that a queue points to."""
    entry = queue.entry(queue.max_offset - 1) if queue.max_offset else None
    found = None if entry is None else store.log.record_at(entry.physical_offset, check=False)
    return None if found is None or entry is None or found.size != entry.size else found.offset + found.size


def _cuts(store: OfflineStore, queues: Sequence[OfflineQueue], scan_from: int, part_bytes_max: int) -> list[int]:
    """Return starts of records, about `part_bytes_max` apart. The starts of segments are among them."""
    log = store.log
    starts = [start for start in log.starts if start + log.segment_bytes > scan_from]
    if not starts:
        return []
    cuts: list[int] = []
    for start in starts:
        cuts.append(max(start, scan_from))
        target = cuts[-1] + part_bytes_max
        while target < start + log.segment_bytes:
            cut = _record_near(store, queues, target, start + log.segment_bytes)
            if cut is None:
                break  # the target is after the last message, or no queue has an entry after it
            cuts.append(cut)
            target = cut + part_bytes_max
    return cuts


def _longest_queues(store: OfflineStore) -> list[OfflineQueue]:
    keys = store.queue_keys()[:LISTED_QUEUES_MAX]
    queues = [queue for key in keys if (queue := store.queue(*key)) is not None]
    return sorted(queues, key=lambda queue: queue.max_offset - (queue.starts[0] // ENTRY_BYTES if queue.starts else 0))[
        -CUT_QUEUES_MAX:
    ]


def _record_near(store: OfflineStore, queues: Sequence[OfflineQueue], target: int, border: int) -> int | None:
    """Return the first record at or after `target` that one of the queues points to."""
    found = [entry.physical_offset for queue in queues if (entry := queue.entry(first_entry_at(queue, target))) is not None]
    places = sorted(place for place in found if target <= place < border)
    return next((place for place in places if store.log.record_at(place) is not None), None)


def _stored_at(store: OfflineStore, offset: int) -> int | None:
    log = store.log
    found = log.first_of(offset) if offset in log.starts else log.record_at(offset, check=False)
    return None if found is None else found.record.store_timestamp
