"""Ranges of queues as partitions of a Spark job. Pure.

One partition for each range, as Kafka's connector has it, unless there are to be at least so many (then large ranges are divided,
each in proportion to its size), or a partition is to have at most so many messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from skyrocket.client.queues import Queue


@dataclass(frozen=True)
class QueueRange(InputPartition):
    """Messages of one queue, from `start` up to and without `stop`. It travels to the task that reads it."""

    queue: Queue
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.queue}, offsets {self.start} to {self.stop}"


def ranges_between(starts: Mapping[Queue, int], stops: Mapping[Queue, int]) -> list[QueueRange]:
    """For each queue that has both, where there is something between."""
    return [
        QueueRange(queue, starts[queue], stops[queue])
        for queue in sorted(stops)
        if starts.get(queue, stops[queue]) < stops[queue]
    ]


def partitions_of(
    ranges: Iterable[QueueRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[QueueRange]:
    """The ranges, in their order, divided where that is asked for. Empty ones are left out. What a partition may have at most is
    looked after first, and then whether there are enough of them."""
    parts = [part for part in ranges if part.size > 0]
    if max_records is not None:
        parts = [piece for part in parts for piece in divided(part, -(-part.size // max_records))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(part.size for part in parts)
    return [
        piece
        for part, pieces in zip(parts, _shares(parts, total, min_partitions), strict=True)
        for piece in divided(part, pieces)
    ]


def _shares(parts: list[QueueRange], total: int, wanted: int) -> list[int]:
    """How many pieces each range gives: its share of the wanted ones, at least one, and no more than it has messages. Small
    ranges stay whole, and the others share what is left."""
    shares = [1] * len(parts)
    left, left_size = wanted, total
    for index in sorted(range(len(parts)), key=lambda index: parts[index].size):
        size = parts[index].size
        share = -(-left * size // left_size) if left_size else 1
        shares[index] = max(1, min(size, share))
        left, left_size = max(1, left - shares[index]), left_size - size
    return shares


def divided(part: QueueRange, pieces: int) -> list[QueueRange]:
    """In so many pieces, whose sizes differ by one at most."""
    pieces = max(1, min(pieces, part.size))
    edges = [part.start + part.size * index // pieces for index in range(pieces + 1)]
    return [QueueRange(part.queue, start, stop) for start, stop in pairwise(edges)]
