"""What jobs ask of the two clusters that they work with: RocketMQ's, and Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from skyrocket.client.queues import Queue
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.options.cluster_options import CLUSTER_OPTIONS, ClusterOptions, cluster_options
from skyrocket.spark.options.table import OptionTable
from skyrocket.spark.session.builder import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_OF_CONNECT: Final = 8  # Spark Connect does not tell how many tasks it can run at once

_CLUSTER: Final = OptionTable("a cluster", CLUSTER_OPTIONS)


def parse_cluster(cluster: Mapping[str, str]) -> ClusterOptions:
    """Parse the options that name a RocketMQ cluster, as Spark's source takes them: nameserver, namespace, accessKey, …"""
    return cluster_options(_CLUSTER.read(cluster))


def require_queues(client: ClusterClient, topics: Iterable[str]) -> dict[str, tuple[Queue, ...]]:
    """Return the queues of each topic. Raise ArgumentError for a topic that does not exist."""
    found = client.queues(topics)
    for topic, queues in found.items():
        if not queues:
            raise ArgumentError(
                f"Topic '{topic}' does not exist at {client.options.where}. Create it with: skyrocket topic create {topic}"
            )
    return found


def runs_here(spark: SparkSession) -> bool:
    """Return whether all tasks run on this machine, in local mode."""
    return not is_connect(spark) and is_local(str(spark.sparkContext.master))


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def parallel_tasks(spark: SparkSession) -> int:
    """Return how many tasks Spark can run at once."""
    if is_connect(spark):
        return TASKS_OF_CONNECT
    return max(1, int(spark.sparkContext.defaultParallelism))
