"""Plans the partitions of a read from a cluster: divides ranges of queues among Spark tasks. Pure.

Each range is one partition, as in Spark's Kafka connector. `min_partitions` divides large ranges in proportion to their sizes
until there are at least that many partitions. `max_records` limits the messages of a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from skyrocket.client.queues import Queue


@dataclass(frozen=True)
class QueuePartition(InputPartition):
    """The messages of one queue from offset `start` up to, but not including, `stop`. Spark pickles it into a task."""

    queue: Queue
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.queue}, offsets {self.start} to {self.stop}"


def ranges_between(starts: Mapping[Queue, int], stops: Mapping[Queue, int]) -> list[QueuePartition]:
    """Return a range for each queue whose start is before its stop."""
    return [
        QueuePartition(queue, starts[queue], stops[queue])
        for queue in sorted(stops)
        if starts.get(queue, stops[queue]) < stops[queue]
    ]


def plan_partitions(
    ranges: Iterable[QueuePartition], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[QueuePartition]:
    """Divide the ranges as requested, in their order, without empty ones. `max_records` applies before `min_partitions`."""
    parts = [part for part in ranges if part.size > 0]
    if max_records is not None:
        parts = [piece for part in parts for piece in divide(part, -(-part.size // max_records))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(part.size for part in parts)
    return [
        piece
        for part, pieces in zip(parts, _piece_counts(parts, total, min_partitions), strict=True)
        for piece in divide(part, pieces)
    ]


def _piece_counts(parts: list[QueuePartition], total: int, wanted: int) -> list[int]:
    """Return how many pieces each range is divided into: in proportion to its size, at least 1, at most one per message.

    The smallest ranges are handled first and stay whole, so that the large ones get the remaining pieces.
    """
    shares = [1] * len(parts)
    left, left_size = wanted, total
    for index in sorted(range(len(parts)), key=lambda index: parts[index].size):
        size = parts[index].size
        share = -(-left * size // left_size) if left_size else 1
        shares[index] = max(1, min(size, share))
        left, left_size = max(1, left - shares[index]), left_size - size
    return shares


def divide(part: QueuePartition, pieces: int) -> list[QueuePartition]:
    """Divide a range into pieces whose sizes differ by at most one."""
    pieces = max(1, min(pieces, part.size))
    edges = [part.start + part.size * index // pieces for index in range(pieces + 1)]
    return [QueuePartition(part.queue, start, stop) for start, stop in pairwise(edges)]
