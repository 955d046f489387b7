"""The Spark source whose tasks write files: `read` fetches a range of a queue, writes it to Parquet, and yields a row per file.

Messages never enter the JVM: that costs more than fetching them. The driver plans the ranges and passes them as an option, so
Spark's planning asks no cluster. Read such a data frame once: a second action would fetch and write everything again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.hourly_files import HourlyFiles
from skyrocket.pipelines.archive.layout import FILE_COLUMNS
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition

PLAN: Final = "plan"  # JSON: [[topic, broker, queue, start, stop], …]
FOLDER: Final = "folder"  # of staged files
COMPRESSION: Final = "compression"
_OWN: Final = frozenset({PLAN, FOLDER, COMPRESSION})

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
        cluster = {name: value for name, value in options.items() if name.lower() not in _OWN}
        topics = ",".join(sorted({part.queue.topic for part in self._parts}))
        self._options = source_options({**cluster, "subscribe": topics, "columns": ",".join(FILE_COLUMNS)}, "batch")

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if not isinstance(partition, QueuePartition):
            return
        files = HourlyFiles(Path(self._folder), *partition.queue, self._compression)
        for file in files.write(RangeReader(self._options, partition, FILE_COLUMNS).batches()):
            yield tuple(getattr(file, name) for name in file.__struct_fields__)
