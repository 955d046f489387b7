"""What jobs ask brokers in their own process: ids and store times of single messages, and how long brokers keep messages."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping

import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.last_messages import LastMessage, check_ids, comparable
from skyrocket.pipelines.archive.layout import HOUR_MS
from skyrocket.pipelines.archive.plan import PlanWords, QueueBounds, RunPlan
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.json_columns.sample import read_messages
from skyrocket.spark.source.partitions import QueuePartition


def read_ids(cluster: Mapping[str, str], offsets: Mapping[Queue, int]) -> dict[Queue, str]:
    """Return the id of the message at an offset of each queue. One that is gone is left out.

    Ask only for offsets that the queues have: for others the reader waits whether they come.
    """
    found: dict[Queue, str] = {}
    for queue, offset in offsets.items():
        for batch in read_messages(cluster, [QueuePartition(queue, offset, offset + 1)], ("msgId",)):
            for message_id in batch.column("msgId").to_pylist():
                found[queue] = message_id
    return found


def check_last_messages(
    cluster: Mapping[str, str],
    known: Iterable[LastMessage],
    plan: RunPlan,
    bounds: Mapping[Queue, QueueBounds],
    words: PlanWords,
) -> None:
    """Raise MissingMessagesError if a queue of which more is to be taken is not the one that the job knows."""
    wanted = comparable(known, plan, bounds)
    check_ids(wanted, read_ids(cluster, {one.queue: one.offset for one in wanted}), words)


def read_waited_ms(cluster: Mapping[str, str], plan: RunPlan, known: Container[Queue]) -> int:
    """Return how long the oldest message of a plan has waited in these queues: 0 if there is none.

    What a new queue has says nothing about how often the job runs.
    """
    oldest_ms: list[int] = []
    for queue, start in plan.starts.items():
        if queue in known and start < plan.stops[queue]:
            batches = read_messages(cluster, [QueuePartition(queue, start, start + 1)], ("storeTimestamp",))
            oldest_ms += [us // 1000 for batch in batches for us in batch.column("storeTimestamp").cast(pa.int64()).to_pylist()]
    return max(0, time.time_ns() // 1_000_000 - min(oldest_ms)) if oldest_ms else 0


def ask_reserved_ms(cluster: Mapping[str, str], brokers: Iterable[str]) -> int | None:
    """Return the shortest time for which these brokers keep messages. None if a broker does not say."""
    found = []
    try:
        with Admin(options=parse_cluster(cluster).client_options()) as admin:
            for broker in sorted(set(brokers)):
                found.append(int(admin.cluster.config(broker)["fileReservedTime"]) * HOUR_MS)
    except (ClientError, KeyError, ValueError):
        return None  # an administrator's request, which this user may not be allowed to send
    return min(found, default=None)
