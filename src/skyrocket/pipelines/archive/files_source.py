"""The Spark source whose tasks write files: `read` fetches a range of a queue, writes it to Parquet, and yields a row per file.

Messages never enter the JVM: that costs more than fetching them. The driver plans the ranges and passes them as an option, so
Spark's planning asks no cluster. Read such a data frame once: a second action would fetch and write everything again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.batch_record import StagedFile
from skyrocket.pipelines.archive.hourly_files import HourlyFiles
from skyrocket.pipelines.archive.layout import FILE_COLUMNS
from skyrocket.pipelines.json_columns.body_columns import BodyColumns
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition

PLAN: Final = "plan"  # JSON: [[topic, broker, queue, start, stop], …]
FOLDER: Final = "folder"  # of staged files
COMPRESSION: Final = "compression"
JSON_COLUMNS: Final = "jsoncolumns"  # JSON of JsonColumns; absent: bodies are binary only
WITH_PARTITIONS: Final = "withpartitions"  # present: topic and hour are columns of the files
_OWN: Final = frozenset({PLAN, FOLDER, COMPRESSION, JSON_COLUMNS, WITH_PARTITIONS})

# In the order of the fields of StagedFile. Built from fields: a text would need a session, which planning processes lack.
FILE_ROW: Final = StructType(
    [
        StructField("name", StringType()),
        StructField("topic", StringType()),
        StructField("hour", StringType()),
        StructField("broker", StringType()),
        StructField("queueId", IntegerType()),
        StructField("start", LongType()),
        StructField("stop", LongType()),
        StructField("rows", LongType()),
        StructField("sizeBytes", LongType()),
        StructField("firstMs", LongType()),
        StructField("lastMs", LongType()),
        StructField("badBodies", LongType()),
        StructField("drift", StringType()),
        StructField("lastId", StringType()),
    ]
)


def encode_plan(parts: Sequence[QueuePartition]) -> str:
    return json.dumps([[*part.queue, part.start, part.stop] for part in parts])


def decode_plan(text: str) -> list[QueuePartition]:
    return [QueuePartition(Queue(topic, broker, number), start, stop) for topic, broker, number, start, stop in json.loads(text)]


class ArchiveFiles(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-archive-files"

    def schema(self) -> StructType:
        return FILE_ROW

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return ArchiveFilesReader(self.options)


class ArchiveFilesReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._parts = decode_plan(options[PLAN])
        self._folder, self._compression = options[FOLDER], options[COMPRESSION]
        self._json = options.get(JSON_COLUMNS)
        self._with_partitions = WITH_PARTITIONS in options
        cluster = {name: value for name, value in options.items() if name.lower() not in _OWN}
        topics = ",".join(sorted({part.queue.topic for part in self._parts}))
        self._options = source_options({**cluster, "subscribe": topics, "columns": ",".join(FILE_COLUMNS)}, "batch")

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, QueuePartition):
            return
        files = HourlyFiles(Path(self._folder), *partition.queue, self._compression, with_partitions=self._with_partitions)
        batches = RangeReader(self._options, partition, FILE_COLUMNS).batches()
        adder = None if self._json is None else BodyColumns(msgspec.json.decode(self._json, type=JsonColumns))
        for file in files.write(batches if adder is None else adder.add(batches)):
            yield _row(file, adder)


def _row(file: StagedFile, adder: BodyColumns | None) -> tuple[Any, ...]:
    """Return the row of a file, with what was counted since the one before."""
    if adder is not None:
        bad, drift = adder.take_counts()
        file = msgspec.structs.replace(file, bad_bodies=bad, drift=json.dumps(drift))
    return tuple(getattr(file, name) for name in file.__struct_fields__)
