"""Writes the messages of one task to Parquet files, one for each hour of their store times.

Files go to the folder of staged files, under names that no other attempt of the task uses: Spark may run a task twice, and takes
the rows of one attempt. Only files that these rows name are published.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from skyrocket.pipelines.archive.batch_record import StagedFile
from skyrocket.pipelines.archive.layout import HOUR_MS, SUFFIX, hour_text

ROW_GROUP_BYTES: Final = 32 * 1024 * 1024  # of decoded columns, roughly
OPEN_FILES_MAX: Final = 4  # each holds a row group in memory; store times seldom go back
FEW_VALUES: Final = (
    "topic",
    "hour",
    "broker",
    "queueId",
    "bornHost",
    "tags",
    "reconsumeTimes",
    "sysFlag",
)  # dictionaries pay off
STATISTICS: Final = ("topic", "hour", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp", "tags")
_HOUR_US: Final = HOUR_MS * 1000


class StagedWriter:
    """One Parquet file in the folder of staged files."""

    def __init__(self, folder: Path, schema: Any, compression: str) -> None:
        self.name = f"{uuid4().hex}{SUFFIX}"
        self._path = folder / self.name
        self._waiting: list[Any] = []
        self._waiting_bytes = 0
        self.rows = 0
        names = schema.names
        self._writer = pq.ParquetWriter(
            self._path,
            schema,
            compression=compression,
            use_dictionary=[name for name in FEW_VALUES if name in names],
            write_statistics=[name for name in STATISTICS if name in names],
        )

    def add(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._waiting_bytes = [], 0

    def close(self) -> int:
        """Finish the file. It is on disk on return. Return its size."""
        self._flush()
        self._writer.close()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def discard(self) -> None:
        self._writer.close()
        self._path.unlink(missing_ok=True)


class _HourFile:
    """The open file of an hour, and the bounds of what it has."""

    def __init__(self, writer: StagedWriter) -> None:
        self.writer = writer
        self.start = self.first_us = 2**63 - 1
        self.stop = self.last_us = 0
        self.last_id = ""

    def add(self, batch: Any) -> None:
        offsets = batch.column("queueOffset").to_numpy()
        times = batch.column("storeTimestamp").cast(pa.int64()).to_numpy()
        last = int(offsets.argmax())
        if int(offsets[last]) >= self.stop:
            self.last_id = batch.column("msgId")[last].as_py()
        self.start, self.stop = min(self.start, int(offsets.min())), max(self.stop, int(offsets[last]) + 1)
        self.first_us, self.last_us = min(self.first_us, int(times.min())), max(self.last_us, int(times.max()))
        self.writer.add(batch)


class HourlyFiles:
    def __init__(
        self, folder: Path, topic: str, broker: str, queue_id: int, compression: str, *, with_partitions: bool = False
    ) -> None:
        """`with_partitions` puts topic and hour into the files, too, for readers that do not look at names of folders."""
        self._folder = folder
        self._with_partitions = with_partitions
        self._topic, self._broker, self._queue_id = topic, broker, queue_id
        self._compression = compression
        self._open: dict[int, _HourFile] = {}  # by hour; the least recently used comes first

    def write(self, batches: Iterable[Any]) -> Iterator[StagedFile]:
        """Write all batches. Yield each file when it is whole and on disk."""
        try:
            for batch in batches:
                for hour, part in split_by_hour(batch):
                    rows = add_partitions(part, self._topic, hour) if self._with_partitions else part
                    file = self._open.pop(hour, None)
                    if file is None:
                        file = _HourFile(StagedWriter(self._folder, rows.schema, self._compression))
                    self._open[hour] = file
                    file.add(rows)
                    if len(self._open) > OPEN_FILES_MAX:
                        yield self._close(next(iter(self._open)))
            while self._open:
                yield self._close(next(iter(self._open)))
        finally:
            for file in self._open.values():
                file.writer.discard()

    def _close(self, hour: int) -> StagedFile:
        file = self._open.pop(hour)
        size_bytes = file.writer.close()
        return StagedFile(
            name=file.writer.name,
            topic=self._topic,
            hour=hour_text(hour),
            broker=self._broker,
            queue_id=self._queue_id,
            start=file.start,
            stop=file.stop,
            rows=file.writer.rows,
            size_bytes=size_bytes,
            first_ms=file.first_us // 1000,
            last_ms=file.last_us // 1000,
            last_id=file.last_id,
        )


def add_partitions(batch: Any, topic: str, hour: int) -> Any:
    """Return the rows with the columns `topic` and `hour`."""
    values = {"topic": topic, "hour": hour_text(hour)}
    arrays = [pa.array([value] * batch.num_rows, pa.string()) for value in values.values()]
    return pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *values])


def split_by_hour(batch: Any) -> Iterator[tuple[int, Any]]:
    """Yield the rows of each hour, counted from 1970, in the order of their offsets. Nearly every batch has one hour."""
    if not batch.num_rows:
        return
    hours = batch.column("storeTimestamp").cast(pa.int64()).to_numpy() // _HOUR_US
    if hours[0] == hours[-1] and (hours == hours[0]).all():
        yield int(hours[0]), batch
        return
    for hour in np.unique(hours).tolist():
        yield hour, batch.filter(pa.array(hours == hour))
