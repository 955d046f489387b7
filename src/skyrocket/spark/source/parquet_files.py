"""Parquet files that the tasks of a batch write themselves: option `parquetPath`.

Rows that Spark writes cross from Python into the JVM first, which costs more than reading them. A task that writes its own file
gives Spark one row about it instead.

    folder/orders+broker-a+3+00000000000000000000+00000000000000001000.parquet        topic, broker, queue, first offset, stop

A file is written under a hidden name, synced, and renamed when it is whole. Its name says what it contains, so a task that runs
again, or twice at once, replaces the file with an equal one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from skyrocket.spark.errors import ColumnError
from skyrocket.spark.source.partitions import QueuePartition

ROW_GROUP_BYTES: Final = 32 * 1024 * 1024  # of decoded columns, roughly: a task keeps one row group in memory

FILE_SCHEMA: Final = StructType(
    [
        StructField("file", StringType()),
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queueId", IntegerType()),
        StructField("startOffset", LongType()),
        StructField("stopOffset", LongType()),
        StructField("rows", LongType()),
        StructField("sizeBytes", LongType()),
    ]
)
_ARROW_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queueId", pa.int32()),
        ("startOffset", pa.int64()),
        ("stopOffset", pa.int64()),
        ("rows", pa.int64()),
        ("sizeBytes", pa.int64()),
    ]
)
_FEW_VALUES: Final = frozenset({"topic", "broker", "queueId", "bornHost", "tags", "reconsumeTimes", "sysFlag"})
_WITHOUT_STATISTICS: Final = frozenset({"body", "msgId", "keys", "properties"})  # nobody looks for a range of these


def check_file_schema(schema: StructType) -> None:
    """Raise ColumnError when a user asks for other columns than those of the files."""
    if [(field.name, field.dataType) for field in schema.fields] != [
        (field.name, field.dataType) for field in FILE_SCHEMA.fields
    ]:
        raise ColumnError(
            "With option 'parquetPath' a read returns one row for each file, with the columns "
            f"{', '.join(FILE_SCHEMA.names)}. Leave the schema out; option 'columns' chooses the columns of the files."
        )


class ParquetFile:
    """Writes the messages of one partition to one file."""

    def __init__(self, folder: str, compression: str, part: QueuePartition) -> None:
        self._folder = Path(folder)
        self._compression = compression
        self._part = part

    @property
    def path(self) -> Path:
        queue = self._part.queue
        names = (quote(queue.topic, safe="%|"), quote(queue.broker_name, safe=""), str(queue.queue_id))
        return self._folder / f"{'+'.join(names)}+{self._part.start:020}+{self._part.stop:020}.parquet"

    def write(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Write the batches, and yield a batch with the row about the file. No file is written when there is no message."""
        groups = _row_groups(batches)
        first = next(groups, None)
        if first is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        hidden = self._folder / f"._{uuid4().hex}.parquet"
        try:
            rows = self._write_groups(hidden, first, groups)
            _sync(hidden)
            size_bytes = hidden.stat().st_size
            hidden.replace(self.path)
            _sync(self._folder)
        finally:
            hidden.unlink(missing_ok=True)
        queue = self._part.queue
        row = (
            str(self.path),
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            self._part.start,
            self._part.stop,
            rows,
            size_bytes,
        )
        columns = [pa.array([value], kind) for value, kind in zip(row, _ARROW_SCHEMA.types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)

    def _write_groups(self, path: Path, first: Any, groups: Iterator[Any]) -> int:
        rows, names = 0, first.schema.names
        with pq.ParquetWriter(
            path,
            first.schema,
            compression=self._compression,
            use_dictionary=[name for name in names if name in _FEW_VALUES],
            write_statistics=[name for name in names if name not in _WITHOUT_STATISTICS],
        ) as writer:
            group: Any = first
            while group is not None:
                writer.write_table(group, row_group_size=group.num_rows)
                rows += group.num_rows
                group = next(groups, None)
        return rows


def _row_groups(batches: Iterable[Any]) -> Iterator[Any]:
    """Join batches into tables of about `ROW_GROUP_BYTES`."""
    waiting: list[Any] = []
    size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
