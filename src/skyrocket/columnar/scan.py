"""The commit log as Arrow record batches, through numpy: no Python object for a message on the way.

    for batch in scan(store, columns=("topic", "storeTimestamp", "body"), topic="orders"):
        ...

The starts of records are found one by one, because each size leads to the next record. Everything else happens for some thousand
records at once: `rows` locates their fields, `columns` builds the columns. A record is accepted under the same conditions as in
`store.log.scan.record_at`, and a batch ends before a record that is not. From there `OfflineLog.walk` finds the next sound
record. It handles damage, ends of segments and the tail of the log. That is slow, and rare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.columnar.checks import RowChecks
from skyrocket.columnar.columns import ALL_COLUMNS, COLUMNS, FAST_COLUMNS, ColumnBuilder
from skyrocket.columnar.entries import find_entry_starts
from skyrocket.columnar.ranges import Bools
from skyrocket.columnar.rows import ChecksumScope, RecordRows, count_leading, find_record_starts
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import FILLER_TOPIC
from skyrocket.store.log.damage import is_filler
from skyrocket.store.log.scan import DamagedRange, LogEnd
from skyrocket.store.offline.offline_log import OfflineLog
from skyrocket.store.offline.offline_store import EVER_MS, OfflineStore, OnDamage
from skyrocket.store.queues.deleted_topics import DeletedTopics

__all__ = ["ALL_COLUMNS", "FAST_COLUMNS", "LogSplit", "regroup", "scan", "scan_rows", "schema"]

BATCH_ROWS = 4096
BATCH_BYTES = 16 * 1024 * 1024  # of log: large bodies make batches of fewer rows
_FILLER = FILLER_TOPIC.encode()


class LogSplit(NamedTuple):
    """A part of the log that can be scanned separately: messages that start from `start` up to, but not including, `stop`."""

    start: int
    stop: int


def schema(columns: Sequence[str] = FAST_COLUMNS) -> Any:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ValueError(f"There is no column called {', '.join(unknown)}. The columns are: {', '.join(COLUMNS)}.")
    return pa.schema([(name, COLUMNS[name].kind) for name in columns])


def scan(
    store: OfflineStore,
    *,
    columns: Sequence[str] = FAST_COLUMNS,
    topic: str | None = None,
    begin_ms: int = 0,
    end_ms: int = EVER_MS,
    split: LogSplit | None = None,
    batch_rows: int = BATCH_ROWS,
    check: bool = True,
    on_damage: OnDamage | None = None,
) -> Iterator[Any]:
    """Yield record batches of messages in order of arrival, optionally of one topic and of a time range.

    The store times are from `begin_ms` up to, but not including, `end_ms`. With `check`, CRCs are computed, and damaged records
    are skipped and reported to `on_damage`. Without it, bodies are returned as they are.
    """
    wanted = schema(columns)
    encoded = b"" if topic is None else topic.encode(errors="replace")
    rows = scan_rows(
        store,
        keep=None if topic is None else lambda found: found.has_topic(encoded),
        begin_ms=begin_ms,
        end_ms=end_ms,
        split=split,
        batch_rows=batch_rows,
        check=check,
        on_damage=on_damage,
    )
    return regroup((_batch(found, wanted) for found in rows), batch_rows)


def _batch(rows: RecordRows, wanted: Any) -> Any:
    made = ColumnBuilder(rows)
    return pa.record_batch([COLUMNS[name].make(made) for name in wanted.names], schema=wanted)


def scan_rows(
    store: OfflineStore,
    *,
    keep: Callable[[RecordRows], Bools] | None = None,
    begin_ms: int = 0,
    end_ms: int = EVER_MS,
    split: LogSplit | None = None,
    batch_rows: int = BATCH_ROWS,
    check: bool = True,
    on_damage: OnDamage | None = None,
) -> Iterator[RecordRows]:
    """Yield rows of messages that lie together in the log, before they become columns. `keep` selects rows; no batch is empty.

    Messages that were deleted with their topic are left out.
    """
    parts = _LogRows(store.log, split or LogSplit(0, EVER_MS), batch_rows, check, on_damage)
    first = store.log.first_since(begin_ms) if begin_ms > 0 else 0
    for rows in parts.rows(first):
        if len(rows) and rows.start[0] == store.log.framing.header_bytes and rows.store_timestamp[0] >= end_ms:
            return  # store times never go back: neither this segment nor a later one has a message in the range
        if len(rows) and rows.physical_offset[0] < store.deleted.latest:
            rows.keep(_is_undeleted(rows, store.deleted))
        if keep is not None and len(rows):
            rows.keep(keep(rows))
        if begin_ms > 0 or end_ms != EVER_MS:
            rows.keep((rows.store_timestamp >= begin_ms) & (rows.store_timestamp < end_ms))
        if len(rows):
            yield rows


def _is_undeleted(rows: RecordRows, deleted: DeletedTopics) -> Bools:
    """Return which messages were not deleted with their topic."""
    numbers, topics = rows.topics
    positions = np.array([deleted.position_of(topic.decode(errors="replace")) for topic in topics], dtype=np.int64)
    kept: Bools = rows.physical_offset >= positions[numbers]
    return kept


def regroup(batches: Iterator[Any], batch_rows: int) -> Iterator[Any]:
    """Merge consecutive small batches, as a filter leaves them, into batches of a useful size."""
    small: list[Any] = []
    count = 0
    for batch in batches:
        if 2 * batch.num_rows >= batch_rows:
            yield from _merge_batches(small)
            small, count = [], 0
            yield batch
            continue
        small.append(batch)
        count += batch.num_rows
        if count >= batch_rows:
            (merged,) = _merge_batches(small)
            yield merged.slice(0, batch_rows)
            count -= batch_rows
            small = [merged.slice(batch_rows)] if count else []
    yield from _merge_batches(small)


def _merge_batches(batches: list[Any]) -> list[Any]:
    """Merge batches into one; return no batch when there is none."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if batches else []


class _LogRows:
    """Reads the log as sound rows, some thousand at once."""

    def __init__(self, log: OfflineLog, split: LogSplit, batch_rows: int, check: bool, on_damage: OnDamage | None) -> None:
        self._log = log
        self._split = split
        self._batch_rows = batch_rows
        self._check = check
        self._on_damage = on_damage
        self._checks = RowChecks(log)
        self._header_bytes = log.framing.header_bytes

    def rows(self, first: int) -> Iterator[RecordRows]:
        at: int | None = self._log.boundary(max(self._split.start, first))
        stuck_at = -1
        while at is not None and at + self._header_bytes < self._split.stop:
            rows = self._rows_at(at)
            if rows is not None and len(rows):
                following = at + self._header_bytes + int(rows.end[-1] - rows.start[0])
                yield rows
                at = following
                continue
            assert at != stuck_at, f"the record at {at} is sound for one reader and not for the other"
            at = self._walk_on(at)
            stuck_at = -1 if at is None else at

    def _walk_on(self, at: int) -> int | None:
        """Return where the next sound record starts; None at the end of the log."""
        for item in self._log.walk(at, check=self._check):
            if isinstance(item, LogEnd):
                break
            if not isinstance(item, DamagedRange):
                return item.offset - self._header_bytes
            if self._on_damage is not None and item.offset < self._split.stop:
                self._on_damage(item)
        return None

    def _rows_at(self, at: int) -> RecordRows | None:
        segment_start = self._log.start_of(at)
        view = None if segment_start is None else self._log.segment(segment_start)
        if segment_start is None or view is None:
            return None
        stop = min(self._split.stop, at + BATCH_BYTES)
        find = find_entry_starts if self._header_bytes else find_record_starts
        starts, _ = find(view, at - segment_start, stop - segment_start, self._batch_rows)
        if not starts:
            return None
        summed = self._checks.checksum_scope(segment_start) if self._check else ChecksumScope.NOTHING
        rows = RecordRows(np.frombuffer(view, np.uint8), segment_start, np.frombuffer(starts, np.int64), summed)
        rows.cut(_count_before_filler(rows))
        rows.cut(_count_utf8_topics(rows))
        if self._check:
            rows.cut(count_leading(self._checks.are_intact(rows, view, segment_start)))
        return rows


def _count_before_filler(rows: RecordRows) -> int:
    """Count the rows before the first filler, which stands for damage."""
    for row in np.flatnonzero((rows.sys_flag & TRANSACTION_MASK) == TRANSACTION_ROLLBACK).tolist():
        topic = rows.data[rows.topic[row] : rows.topic_end[row]].tobytes()
        record = rows.data[rows.start[row] : rows.end[row]].tobytes()
        if topic == _FILLER[: len(topic)] and is_filler(decode_record(record, check_crc=False)):
            return int(row)
    return len(rows)


def _count_utf8_topics(rows: RecordRows) -> int:
    """Count the rows before the first one whose topic is not UTF-8."""
    return count_leading(rows.has_topics(np.array([_is_utf8(topic) for topic in rows.topics[1]], np.bool_)))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
