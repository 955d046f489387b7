"""The messages of one queue as rows, found through the queue's entries: fast for a topic that is a small part of a large log.

    entries of the queue, some thousand at once  ->  ranges of the log, by segment  ->  rows, each compared with its entry

An entry that does not match the log counts as damage, as in `OfflineStore.queue_records`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skyrocket.columnar.checks import RowChecks
from skyrocket.columnar.ranges import Bools, Bytes, Ints
from skyrocket.columnar.rows import ChecksumScope, RecordRows, window
from skyrocket.columnar.scan import BATCH_BYTES, BATCH_ROWS
from skyrocket.protocol.message.record import FIXED_BYTES_MIN, MAGIC, MAGIC_V2
from skyrocket.store.log.scan import DamagedRange
from skyrocket.store.offline.offline_store import OfflineQueueRange, OfflineStore, OnDamage
from skyrocket.store.queues.consume_queue import ENTRY_BYTES

_ENTRY: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_SIZE_AND_MAGIC: Final = np.dtype([("size", ">i4"), ("magic", ">i4")])
assert _ENTRY.itemsize == ENTRY_BYTES


def read_queue_rows(
    store: OfflineStore,
    which: OfflineQueueRange,
    *,
    batch_rows: int = BATCH_ROWS,
    check: bool = True,
    on_damage: OnDamage | None = None,
) -> Iterator[RecordRows]:
    """Yield the messages of a queue in a range of its offsets, in order. No batch is empty."""
    queue = store.queue(which.topic, which.queue_id)
    reader = _QueueRows(store, which, check, on_damage)
    offset = which.min_offset
    while queue is not None and offset < which.max_offset:
        packed = queue.read(offset, min(batch_rows, which.max_offset - offset))
        if not packed:
            following = [start // ENTRY_BYTES for start in queue.starts if start > offset * ENTRY_BYTES]  # a file is missing
            offset = min(following, default=which.max_offset)
            continue
        entries = np.frombuffer(packed, _ENTRY)
        yield from reader.rows(offset, entries["physical_offset"].astype(np.int64), entries["size"].astype(np.int64))
        offset += len(entries)


class _QueueRows:
    def __init__(self, store: OfflineStore, which: OfflineQueueRange, check: bool, on_damage: OnDamage | None) -> None:
        self._log = store.log
        self._topic = which.topic.encode()
        self._queue_id = which.queue_id
        self._check = check
        self._on_damage = on_damage
        self._checks = RowChecks(store.log)

    def rows(self, queue_offset: int, offsets: Ints, sizes: Ints) -> Iterator[RecordRows]:
        """Yield the rows of consecutive queue entries, from `queue_offset` on."""
        at = 0
        while at < len(offsets):
            segment_start = self._log.start_of(int(offsets[at]))
            view = None if segment_start is None else self._log.segment(segment_start)
            if segment_start is None or view is None:
                if self._on_damage is not None and offsets[at] >= self._log.start:  # otherwise it has expired, with its segment
                    self._on_damage(DamagedRange(int(offsets[at]), int(sizes[at])))
                at += 1
                continue
            border = min(segment_start + len(view), int(offsets[at]) + BATCH_BYTES)
            inside = (offsets[at:] >= segment_start) & (offsets[at:] < border)
            count = max(1, len(inside) if inside.all() else int(inside.argmin()))
            part = slice(at, at + count)
            yield from self._segment_rows(view, segment_start, queue_offset + at, offsets[part], sizes[part])
            at += count

    def _segment_rows(
        self, view: memoryview, segment_start: int, queue_offset: int, offsets: Ints, sizes: Ints
    ) -> Iterator[RecordRows]:
        data = np.frombuffer(view, np.uint8)
        starts = offsets - segment_start
        sound = _is_record(data, starts, sizes)
        expected: Ints = np.arange(queue_offset, queue_offset + len(offsets), dtype=np.int64)
        left = np.flatnonzero(sound)
        summed = self._checks.checksum_scope(segment_start) if self._check else ChecksumScope.NOTHING
        while len(left):
            rows = RecordRows(data, segment_start, starts[left], summed)
            count = len(rows)  # `RecordRows` stops before a bad record
            good = self._matches_entry(rows, expected[left[:count]])
            if self._check:
                good &= self._checks.are_intact(rows, view, segment_start)
            sound[left[:count]] = good
            sound[left[count : count + 1]] = False
            rows.keep(good)
            if len(rows):
                yield rows
            left = left[count + 1 :]
        if self._on_damage is not None:
            for bad in np.flatnonzero(~sound).tolist():
                self._on_damage(DamagedRange(int(offsets[bad]), int(sizes[bad])))

    def _matches_entry(self, rows: RecordRows, queue_offsets: Ints) -> Bools:
        meant: Bools = (rows.queue_id == self._queue_id) & (rows.queue_offset == queue_offsets) & rows.has_topic(self._topic)
        return meant


def _is_record(data: Bytes, starts: Ints, sizes: Ints) -> Bools:
    """Return for each start whether a record of this size begins there."""
    sound: Bools = (sizes >= FIXED_BYTES_MIN) & (starts >= 0) & (starts + sizes <= len(data))
    sound[1:] &= starts[1:] >= (starts + sizes)[:-1]  # in order, and not overlapping
    at = np.flatnonzero(sound)
    if len(at):
        head = window(data, starts[at], _SIZE_AND_MAGIC.itemsize).view(_SIZE_AND_MAGIC)
        magic = head["magic"]
        sound[at] = (head["size"] == sizes[at]) & ((magic == MAGIC) | (magic == MAGIC_V2))
    return sound
