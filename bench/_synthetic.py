"""A Spark source without reading: its tasks yield prepared record batches again and again, which measures Spark's own limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.spark.columns import spark_schema


class Synthetic(DataSource):
    """Options: `batches` (a file of record batches in Arrow's IPC format), their `columns`, `rows` in total, `tasks`."""

    @classmethod
    def name(cls) -> str:
        return "synthetic"

    def schema(self) -> StructType:
        return spark_schema(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 — Spark passes it by name
        return SyntheticReader(self.options)


class SyntheticReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._file = options["batches"]
        self._rows, self._tasks = int(options["rows"]), int(options["tasks"])

    def partitions(self) -> Sequence[InputPartition]:
        each, more = divmod(self._rows, self._tasks)
        return [InputPartition(each + (number < more)) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        left = partition.value
        while left:
            for batch in prepared(self._file):
                yield batch if batch.num_rows <= left else batch.slice(0, left)
                left -= min(left, batch.num_rows)
                if not left:
                    break


@cache
def prepared(file: str) -> list[Any]:
    """Return the batches of the file; a worker reads it once."""
    with pa.OSFile(file) as opened:
        made = pa.ipc.open_file(opened.read())
    return [made.get_batch(number) for number in range(made.num_record_batches)]
