"""A batch: what is there when the job is planned, divided among tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.spark.cluster.cluster import Cluster
from skyrocket.spark.cluster.resolution import check_filter, check_order, ending_offsets, selected_queues, starting_offsets
from skyrocket.spark.columns import columns_of
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueueRange, partitions_of, ranges_between


class BatchReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, "batch")
        self._columns = columns_of(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Spark asks once for each `load`: whoever reads the same data frame again gets the same messages."""
        options = self._options
        cluster = Cluster(options.cluster)
        queues = selected_queues(options, cluster)
        check_filter(options, cluster, queues)
        starts = starting_offsets(options, cluster, queues)
        stops = ending_offsets(options, cluster, queues)
        check_order(options, starts, stops)
        return partitions_of(
            ranges_between(starts, stops), min_partitions=options.min_partitions, max_records=options.max_records
        )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, QueueRange):
            return iter(())  # where there are no partitions, Spark reads one that is None
        return RangeReader(self._options, partition, self._columns).batches()
