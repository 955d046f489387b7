"""The Spark source of changes: a task fetches a range of a queue and decodes it, so JSON is parsed on all cores.

The driver plans the ranges and passes them as an option, so Spark's planning asks no cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.pipelines.archive.files_source import PLAN, decode_plan, encode_plan
from skyrocket.pipelines.table.changes import ChangeDecoder, DecoderSettings, change_schema, spark_change_schema
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECODER: Final = "decoder"  # JSON of DecoderSettings
_OWN: Final = frozenset({PLAN, DECODER})


class TopicChanges(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-changes"

    def schema(self) -> StructType:
        return spark_change_schema(_settings(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 — Spark passes it
        return TopicChangesReader(self.options)


def _settings(options: Mapping[str, str]) -> DecoderSettings:
    return msgspec.json.decode(options[DECODER], type=DecoderSettings)


class TopicChangesReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._parts = decode_plan(options[PLAN])
        self._settings = _settings(options)
        self._cluster = {name: value for name, value in options.items() if name.lower() not in _OWN}

    def partitions(self) -> Sequence[InputPartition]:
        return self._parts

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, QueuePartition):  # without partitions, Spark reads one that is None
            yield from read_changes(self._cluster, partition, self._settings)


def read_changes(cluster: Mapping[str, str], part: QueuePartition, settings: DecoderSettings) -> Iterator[Any]:
    """Yield the changes of a range as Arrow batches, read in this process."""
    decoder = ChangeDecoder(settings)
    columns = decoder.message_columns
    options = source_options({**cluster, "subscribe": part.queue.topic, "columns": ",".join(columns)}, "batch")
    for batch in RangeReader(options, part, columns).batches():
        yield decoder.decode(batch)


def collect_changes(
    spark: SparkSession, cluster: Mapping[str, str], parts: Sequence[QueuePartition], settings: DecoderSettings
) -> Any:
    """Read the changes of a batch on Spark. Return them as one Arrow table, in the order of queues and offsets."""
    options = {PLAN: encode_plan(parts), DECODER: msgspec.json.encode(settings).decode()}
    frame = spark.read.format(TopicChanges.name()).options(**cluster, **options).load()
    return frame.toArrow().cast(change_schema(settings.columns))
