"""Reads the ids of single messages from the brokers, in this process, and compares them with those that a job knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage, check_ids, growing
from skyrocket.pipelines.archive.plan import PlanWords, RunPlan
from skyrocket.pipelines.json_columns.sample import read_messages
from skyrocket.spark.source.partitions import QueuePartition


def read_ids(cluster: Mapping[str, str], offsets: Mapping[Queue, int]) -> dict[Queue, str]:
    """Return the id of the message at an offset of each queue, in this process. One that is gone is left out."""
    found: dict[Queue, str] = {}
    for queue, offset in offsets.items():
        for batch in read_messages(cluster, [QueuePartition(queue, offset, offset + 1)], ("msgId",)):
            for message_id in batch.column("msgId").to_pylist():
                found[queue] = message_id
    return found


def read_last_messages(cluster: Mapping[str, str], stops: Mapping[Queue, int]) -> list[LastMessage]:
    """Return the message before each stop, as far as they are there."""
    found = read_ids(cluster, {queue: stop - 1 for queue, stop in stops.items() if stop > 0})
    return [
        LastMessage(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=stops[queue] - 1, id=message_id)
        for queue, message_id in found.items()
    ]


def check_last_messages(cluster: Mapping[str, str], known: Iterable[LastMessage], plan: RunPlan, words: PlanWords) -> None:
    """Raise MissingMessagesError if a queue of which more is to be taken is not the one that the job knows."""
    wanted = growing(known, plan)
    check_ids(wanted, read_ids(cluster, {one.queue: one.offset for one in wanted}), words)
