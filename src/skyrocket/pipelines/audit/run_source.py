"""Reads topics as runs on Spark: a data source whose tasks turn messages into runs, so that nothing else crosses into the JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from skyrocket.pipelines.audit.runs import RunCollector
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.options.offset_json import queue_key
from skyrocket.spark.source.batch_reader import BatchReader
from skyrocket.spark.source.partitions import QueuePartition

CONSUMED_OFFSETS: Final = "consumedOffsets"  # JSON: topic -> "broker:queue" -> the group's committed offset
BATCH_RUNS: Final = 4_096
_READ_COLUMNS: Final = ("queueOffset", "properties")

RUN_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queueId", IntegerType()),
        StructField("producer", StringType()),  # null: the row counts messages without a stamp
        StructField("first", LongType()),
        StructField("last", LongType()),
        StructField("firstOffset", LongType()),
        StructField("isConsumed", BooleanType()),
        StructField("unstamped", LongType()),
    ]
)
_ARROW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("queueId", pa.int32()),
        ("producer", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("firstOffset", pa.int64()),
        ("isConsumed", pa.bool_()),
        ("unstamped", pa.int64()),
    ]
)


class SequenceRuns(DataSource):
    """`format("rocketmq-sequence-runs")`: a row for each run. Takes the options of "rocketmq", and CONSUMED_OFFSETS."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-sequence-runs"

    def schema(self) -> StructType:
        return RUN_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 — Spark passes it
        return SequenceRunReader(self.options)


class SequenceRunReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self._consumed: dict[str, dict[str, int]] = json.loads(given.pop(CONSUMED_OFFSETS.lower(), "{}"))
        self._reader = BatchReader(given, spark_schema(_READ_COLUMNS))

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, QueuePartition):
            return  # without partitions, Spark reads one that is None
        queue = partition.queue
        consumed_before = self._consumed.get(queue.topic, {}).get(queue_key(queue), 0)
        collector = RunCollector(consumed_before)
        for batch in self._reader.read(partition):
            collector.add(batch.column("properties"), batch.column("queueOffset").to_numpy())
        yield from run_batches(partition, collector)


def run_batches(part: QueuePartition, collector: RunCollector) -> Iterator[Any]:
    """Yield the runs of a part of a queue as Arrow batches, and a last row that counts its messages without a stamp."""
    runs, producers, queue = collector.runs(), np.array([*collector.producers, None], object), part.queue
    if collector.unstamped:
        yield _batch(queue, [None], [[0], [0], [part.start]], [False], [collector.unstamped])
    for start in range(0, len(runs), BATCH_RUNS):
        piece = slice(start, start + BATCH_RUNS)
        names = producers[runs.producer[piece]].tolist()
        numbers = [runs.first[piece], runs.last[piece], runs.first_offset[piece]]
        yield _batch(queue, names, numbers, runs.is_consumed[piece], np.zeros(len(names), np.int64))


def _batch(queue: Any, producers: list[Any], numbers: list[Any], is_consumed: Any, unstamped: Any) -> Any:
    count = len(producers)
    columns = [[queue.topic] * count, [queue.broker_name] * count, [queue.queue_id] * count, producers, *numbers]
    arrays = [
        pa.array(values, kind) for values, kind in zip([*columns, is_consumed, unstamped], _ARROW_SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW_SCHEMA)
