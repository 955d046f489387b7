"""The reader of store directories: plans the partitions, and reads each of them in a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.columnar.queue import read_queue_rows
from skyrocket.columnar.ranges import Bools
from skyrocket.columnar.rows import RecordRows
from skyrocket.columnar.scan import LogSplit, regroup, scan_rows
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NONE
from skyrocket.protocol.system_names import is_internal_topic
from skyrocket.spark.columns import columns_of
from skyrocket.spark.errors import ColumnError
from skyrocket.spark.fetch.record_batches import BatchMaker
from skyrocket.spark.fetch.worker_memory import freeze_modules
from skyrocket.spark.offline.partitions import LogPartition, StoreQueuePartition, plan_store_partitions
from skyrocket.spark.options.store_options import DAMAGE, DAMAGE_SCHEMA, StoreOptions, store_options
from skyrocket.store.log.scan import DamagedRange
from skyrocket.store.offline.offline_store import OfflineStore

BATCH_ROWS: Final = 2_000  # not a power of two: all columns of a batch would then map to the same set of the processor's cache
_LOG = logging.getLogger(__name__)
_DAMAGE_ARROW: Final = pa.schema([("broker", pa.string()), ("path", pa.string()), ("offset", pa.int64()), ("size", pa.int64())])


class StoreReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = store_options(options)
        if self._options.mode == DAMAGE:
            if schema != DAMAGE_SCHEMA:
                raise ColumnError(
                    "Option 'mode' is damage, whose columns are broker, path, offset and size. Leave the schema out."
                )
            self._columns: tuple[str, ...] = ()
        else:
            self._columns = columns_of(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return plan_store_partitions(self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LogPartition | StoreQueuePartition)
        freeze_modules()
        with OfflineStore(partition.path) as store:
            if self._options.mode == DAMAGE:
                assert isinstance(partition, LogPartition)
                yield from _read_damage(store, partition, self._options)
            else:
                yield from regroup(self._batches(store, partition), BATCH_ROWS)

    def _batches(self, store: OfflineStore, part: LogPartition | StoreQueuePartition) -> Iterator[Any]:
        maker = BatchMaker(self._columns, broker=part.broker)
        for rows in _read_rows(store, part, self._options):
            rows.keep(_is_in_queue(rows))
            if len(rows):
                yield maker.batch(rows)


def _read_rows(store: OfflineStore, part: LogPartition | StoreQueuePartition, options: StoreOptions) -> Iterator[RecordRows]:
    def on_damage(found: DamagedRange) -> None:
        _LOG.warning("%s: %d bytes at offset %d of the commit log cannot be read.", part.path, found.size, found.offset)

    if isinstance(part, StoreQueuePartition):
        for each in part.ranges:
            yield from read_queue_rows(store, each, batch_rows=BATCH_ROWS, check=options.check, on_damage=on_damage)
        return
    yield from scan_rows(
        store,
        keep=_topic_filter(options),
        begin_ms=options.begin_ms,
        end_ms=options.end_ms,
        split=LogSplit(part.start, part.stop),
        batch_rows=BATCH_ROWS,
        check=options.check,
        on_damage=on_damage,
    )


def _is_in_queue(rows: RecordRows) -> Bools:
    """Return for each row whether a consumer could pull it: prepared and rolled back records are in no consume queue."""
    kind = rows.sys_flag & TRANSACTION_MASK
    found: Bools = (kind == TRANSACTION_NONE) | (kind == TRANSACTION_COMMIT)
    return found


def _topic_filter(options: StoreOptions) -> Callable[[RecordRows], Bools] | None:
    if len(options.topics) == 1:
        topic = options.topics[0].encode()
        return lambda rows: rows.has_topic(topic)
    if options.topics:
        return lambda rows: _has_wanted_topic(rows, lambda topic: topic in options.topics)
    return None if options.system_topics else lambda rows: _has_wanted_topic(rows, lambda topic: not is_internal_topic(topic))


def _has_wanted_topic(rows: RecordRows, is_wanted: Callable[[str], bool]) -> Bools:
    """Return for each row whether its topic is wanted. Rows have few distinct topics, and each is tested once."""
    return rows.has_topics(np.array([is_wanted(topic.decode()) for topic in rows.topics[1]], np.bool_))


def _read_damage(store: OfflineStore, part: LogPartition, options: StoreOptions) -> Iterator[Any]:
    found: list[DamagedRange] = []
    for _ in scan_rows(
        store, split=LogSplit(part.start, part.stop), batch_rows=BATCH_ROWS, check=options.check, on_damage=found.append
    ):
        pass
    log = store.log
    paths = [log.path(each.offset - each.offset % log.segment_bytes) for each in found]
    columns = [[part.broker] * len(found), paths, [each.offset for each in found], [each.size for each in found]]
    if found:
        yield pa.record_batch(columns, schema=_DAMAGE_ARROW)
