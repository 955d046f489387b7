"""How long messages wait until they are archived, against how long their brokers keep them (`fileReservedTime`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.layout import HOUR_MS
from skyrocket.pipelines.archive.plan import RunPlan
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.json_columns.sample import read_messages
from skyrocket.report.texts import format_duration
from skyrocket.spark.source.partitions import QueuePartition

NEAR_SHARE: Final = 0.5  # of the time that brokers keep messages: one failed run later, they may be gone


def is_near_expiry(waited_ms: int, reserved_ms: int | None) -> bool:
    """Whether messages that have waited for so long are near their deletion. Pure."""
    return reserved_ms is not None and waited_ms >= NEAR_SHARE * reserved_ms


def expiry_sentences(waited_ms: int, reserved_ms: int | None) -> tuple[str, str, str]:
    """Return what is wrong, the evidence, and what to do about messages that are archived late. Pure."""
    return (
        "Messages wait too long until they are archived.",
        f"The oldest had waited {format_duration(waited_ms)}; a broker deletes messages after {format_duration(reserved_ms)}.",
        "Run the archive more often or with --follow, or raise fileReservedTime.",
    )


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


def read_waited_ms(cluster: Mapping[str, str], plan: RunPlan) -> int:
    """Return how long the oldest message of a plan has waited: 0 if there is none. It is read in this process."""
    oldest_ms: list[int] = []
    for queue, start in plan.starts.items():
        if start < plan.stops[queue]:
            oldest_ms += read_store_times(cluster, queue, start)
    return max(0, time.time_ns() // 1_000_000 - min(oldest_ms)) if oldest_ms else 0


def read_store_times(cluster: Mapping[str, str], queue: Queue, offset: int) -> list[int]:
    """Return the store time of the message at an offset, in ms; nothing if it is gone."""
    batches = read_messages(cluster, [QueuePartition(queue, offset, offset + 1)], ("storeTimestamp",))
    return [us // 1000 for batch in batches for us in pc.cast(batch.column("storeTimestamp"), "int64").to_pylist()]
