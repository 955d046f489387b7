"""Where the job `table` gets its changes from: a topic of a cluster, read by Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.job import queue_bounds
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.clusters import parallel_tasks, parse_cluster
from skyrocket.pipelines.json_columns.sample import read_messages
from skyrocket.pipelines.table.changes import DecoderSettings
from skyrocket.pipelines.table.changes_source import TopicChanges, collect_changes
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.source.partitions import QueuePartition

MESSAGE_COLUMNS: Final = ("broker", "queueId", "queueOffset", "msgId", "keys", "properties", "body")


class ChangeFeed(Protocol):
    tasks: int  # into how many ranges a batch is divided at least

    def bounds(self) -> dict[Queue, QueueBounds]:
        """Return where the queues of the topic begin and end now."""

    def messages(self, parts: Sequence[QueuePartition]) -> Iterator[Any]:
        """Yield messages with MESSAGE_COLUMNS, as batches, read in this process."""

    def changes(self, parts: Sequence[QueuePartition], settings: DecoderSettings) -> Any:
        """Return the changes of these ranges as one Arrow table, with the schema of `changes.change_schema`."""


class TopicFeed:
    """A topic of a cluster. Without Spark it can only be planned: for a dry run."""

    def __init__(self, topic: str, cluster: Mapping[str, str], spark: SparkSession | None = None) -> None:
        self._topic = topic
        self._cluster = dict(cluster)
        self._client = ClusterClient(parse_cluster(cluster))
        self._spark = spark
        self.tasks = 1
        if spark is not None:
            spark.dataSource.register(TopicChanges)
            self.tasks = parallel_tasks(spark)

    def bounds(self) -> dict[Queue, QueueBounds]:
        return queue_bounds(self._client, [self._topic])

    def messages(self, parts: Sequence[QueuePartition]) -> Iterator[Any]:
        return read_messages(self._cluster, parts, MESSAGE_COLUMNS)

    def changes(self, parts: Sequence[QueuePartition], settings: DecoderSettings) -> Any:
        assert self._spark is not None, "a dry run reads no changes"
        return collect_changes(self._spark, self._cluster, parts, settings)
