"""The batch reader: plans a read of the messages that exist now, and reads each partition in a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.cluster.resolution import (
    check_filter,
    check_order,
    resolve_ending_offsets,
    resolve_starting_offsets,
    select_queues,
)
from skyrocket.spark.columns import columns_of
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.parquet_files import ParquetFile, check_file_schema
from skyrocket.spark.source.partitions import QueuePartition, plan_partitions, ranges_between


class BatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, "batch")
        if self._options.parquet_path is None:
            self._columns = columns_of(schema)
        else:
            check_file_schema(schema)
            self._columns = self._options.columns

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read. Spark calls this once for each `load`, so a data frame read twice gives the same messages."""
        options = self._options
        cluster = ClusterClient(options.cluster)
        queues = select_queues(options, cluster)
        check_filter(options, cluster, queues)
        starts = resolve_starting_offsets(options, cluster, queues)
        stops = resolve_ending_offsets(options, cluster, queues)
        check_order(options, starts, stops)
        return plan_partitions(
            ranges_between(starts, stops), min_partitions=options.min_partitions, max_records=options.max_records
        )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, QueuePartition):
            return iter(())  # without partitions, Spark reads one that is None
        batches = RangeReader(self._options, partition, self._columns).batches()
        if self._options.parquet_path is None:
            return batches
        return ParquetFile(self._options.parquet_path, self._options.parquet_compression, partition).write(batches)
