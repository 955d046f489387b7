"""How a store directory is divided among tasks.

A log is cut at its segments' borders and, inside segments, at records that consume queues name: those are certain to be records,
and are found without walking through the log. Of few topics in a large log, the queues' entries are read instead of the log. What
was stored outside the time that is asked for is left out by the time of the first message behind each cut.

A log that grows is read up to where it ended when the job was planned: its tasks would run after its broker without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple

from pyspark.sql.datasource import InputPartition

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

QUEUES_ASKED_MAX: Final = 16  # for a cut: the longest ones
QUEUES_LOOKED_AT_MAX: Final = 1024  # for which are the longest
SAMPLES: Final = 16  # entries of a queue, for the size of its messages
_CHAIN_MAX: Final = 65_536  # records passed over at once
_PAGE_BYTES: Final = 4096  # what a single message costs to read beyond its own size


@dataclass(frozen=True)
class LogPart(InputPartition):
    """The messages that start from `start` up to and without `stop`, in the log of a directory."""

    path: str
    broker: str
    start: int
    stop: int


@dataclass(frozen=True)
class QueuePart(InputPartition):
    """The messages of these ranges of queues."""

    path: str
    broker: str
    ranges: tuple[OfflineQueueRange, ...]


def parts_of(options: StoreOptions) -> list[InputPartition]:
    parts: list[InputPartition] = []
    for path in options.paths:
        try:
            with OfflineStore(path) as store:
                broker = options.broker or broker_name(store)
                parts += _store_parts(store, options, broker)
        except StoreFormatError as error:
            raise OptionError(f"Option 'path': {error}") from error
    return parts


def broker_name(store: OfflineStore) -> str:
    """As the topics tell it that the broker made for itself; otherwise the directory's name."""
    root = PurePath(store.paths.root)
    try:
        with open(f"{store.paths.config}/topics.json", "rb") as file:  # noqa: PTH123 — a path of StorePaths is text
            topics = decode(file.read(), TopicConfigSerializeWrapper).topic_config_table or {}
    except (OSError, BodyError):
        return root.name  # without settings, or with damaged ones, messages are read all the same
    names = [topic.removeprefix(MEMBER_SYNC_PREFIX) for topic in topics if topic.startswith(MEMBER_SYNC_PREFIX)]
    return names[0] if len(names) == 1 else root.name


def _store_parts(store: OfflineStore, options: StoreOptions, broker: str) -> Iterator[InputPartition]:
    path, scan_from = store.paths.root, 0
    if options.topics and options.mode != DAMAGE:
        queues = [(key.topic, key.queue_id) for key in store.queue_keys() if key.topic in options.topics]
        measured = [_Measured.of(store, topic, queue_id) for topic, queue_id in queues]
        if store.queue_keys() and sum(each.cost_bytes for each in measured) < len(store.log.starts) * store.log.segment_bytes:
            scan_from = complete_until(store)
            ranges = _ranges(store, measured, scan_from, options)
            yield from (QueuePart(path, broker, group) for group in _groups(ranges, options.part_bytes_max))
    for start, stop in _log_ranges(store, scan_from, options):
        yield LogPart(path, broker, start, stop)


# --- by queue


class _Measured(NamedTuple):
    """A queue, and the mean size of its messages."""

    range: OfflineQueueRange
    message_bytes: int

    @classmethod
    def of(cls, store: OfflineStore, topic: str, queue_id: int) -> _Measured:
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


def complete_until(store: OfflineStore) -> int:
    """Up to which place of the log the queues have every message for certain: the rest is to be read from the log itself."""
    if not store.is_open:
        return EVER_MS  # closed in order
    checkpoint = store.checkpoint
    if checkpoint.dispatch_end is not None:
        return checkpoint.dispatch_end
    return store.log.first_since(checkpoint.queue_timestamp)


def _ranges(store: OfflineStore, measured: Iterable[_Measured], stop_at: int, options: StoreOptions) -> Iterator[_Measured]:
    """What of each queue lies in the time asked for and before `stop_at`, in pieces for one task at most."""
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
            yield _Measured(OfflineQueueRange(topic, queue_id, begin, min(stop, begin + step)), message_bytes)


def _groups(ranges: Iterable[_Measured], part_bytes_max: int) -> Iterator[tuple[OfflineQueueRange, ...]]:
    """Short queues together."""
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
    """The queue offset of the first message at or behind a place of the log."""
    low, high = queue.starts[0] // ENTRY_BYTES if queue.starts else 0, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        entry = queue.entry(middle)
        is_before = entry is None or entry.physical_offset < physical_offset
        low, high = (middle + 1, high) if is_before else (low, middle)
    return low


# --- by place in the log


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
            return  # store times do not go back
        if following is not None and following < options.begin_ms:
            continue
        yield start, end if is_last else cuts[index + 1]


def log_end(store: OfflineStore, queues: Sequence[OfflineQueue]) -> int:
    """Where the log ends now. What the queues name is passed over; only what lies behind is looked at."""
    log = store.log
    at = max((each for queue in queues if (each := _end_of_last(store, queue)) is not None), default=log.start)
    if at == log.start:
        at = next((start for start in reversed(log.starts) if log.record_at(start, check=False) is not None), log.start)
    while True:
        segment_start = log.start_of(at)
        view = None if segment_start is None else log.segment(segment_start)
        if segment_start is not None and view is not None:
            starts, end_at = find_record_starts(view, at - segment_start, len(view), _CHAIN_MAX)
            at = segment_start + end_at
            if len(starts) == _CHAIN_MAX * START_BYTES:
                continue
        item = next(iter(log.walk(at, check=False)))
        if isinstance(item, LogEnd):
            return item.offset
        if not isinstance(item, DamagedRange) and item.offset == at:
            return at  # it came while one looked
        at = item.offset + item.size


def _end_of_last(store: OfflineStore, queue: OfflineQueue) -> int | None:
    """Where the message ends that a queue names last."""
    entry = queue.entry(queue.max_offset - 1) if queue.max_offset else None
    found = None if entry is None else store.log.record_at(entry.physical_offset, check=False)
    return None if found is None or entry is None or found.size != entry.size else found.offset + found.size


def _cuts(store: OfflineStore, queues: Sequence[OfflineQueue], scan_from: int, part_bytes_max: int) -> list[int]:
    """Where records start, about this far from each other: segments' borders among them."""
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
                break  # behind the last message; or no queue has one from here on
            cuts.append(cut)
            target = cut + part_bytes_max
    return cuts


def _longest_queues(store: OfflineStore) -> list[OfflineQueue]:
    keys = store.queue_keys()[:QUEUES_LOOKED_AT_MAX]
    queues = [queue for key in keys if (queue := store.queue(*key)) is not None]
    return sorted(queues, key=lambda queue: queue.max_offset - (queue.starts[0] // ENTRY_BYTES if queue.starts else 0))[
        -QUEUES_ASKED_MAX:
    ]


def _record_near(store: OfflineStore, queues: Sequence[OfflineQueue], target: int, border: int) -> int | None:
    """The first record from `target` on that one of the queues names."""
    found = [entry.physical_offset for queue in queues if (entry := queue.entry(first_entry_at(queue, target))) is not None]
    places = sorted(place for place in found if target <= place < border)
    return next((place for place in places if store.log.record_at(place) is not None), None)


def _stored_at(store: OfflineStore, offset: int) -> int | None:
    found = store.log.record_at(offset, check=False)
    return None if found is None else found.record.store_timestamp
