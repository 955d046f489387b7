"""Compares an archive with the offsets that it should have: each exactly once.

Spark counts each queue. An offset that is missing or there twice is looked for only in queues whose counts do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.replay.selection import literal

QUEUE_COLUMNS: Final = ("topic", "broker", "queueId")
PROBLEMS_MAX: Final = 20  # named for each queue


class QueueRows(NamedTuple):
    """What the files have of a queue."""

    rows: int
    distinct: int  # different offsets
    first: int
    last: int


class OffsetProblem(NamedTuple):
    """Offsets of a queue, from `start` up to before `stop`, that the files lack, have more than once, or should not have."""

    queue: Queue
    start: int
    stop: int
    what: str

    def __str__(self) -> str:
        which = f"offset {self.start} is" if self.stop == self.start + 1 else f"offsets {self.start} to {self.stop - 1} are"
        return f"{self.queue}: {which} {self.what}."


MISSING: Final = "missing"
REPEATED: Final = "there more than once"
BEYOND: Final = "outside of the expected range"


def count_rows(frame: DataFrame) -> dict[Queue, QueueRows]:
    """Count the rows and the different offsets of each queue."""
    counted = frame.groupBy(*QUEUE_COLUMNS).agg(
        sql.count("*").alias("rows"),
        sql.count_distinct("queueOffset").alias("offsets"),
        sql.min("queueOffset").alias("first"),
        sql.max("queueOffset").alias("last"),
    )
    return {
        Queue(row["topic"], row["broker"], row["queueId"]): QueueRows(row["rows"], row["offsets"], row["first"], row["last"])
        for row in counted.collect()
    }


def covers(found: QueueRows | None, wanted: QueueBounds) -> bool:
    """Whether these rows are each offset of the range exactly once. Pure."""
    count = wanted.last - wanted.first
    if found is None:
        return count == 0
    return found == (count, count, wanted.first, wanted.last - 1)


def find_problems(
    frame: DataFrame,
    wanted: Mapping[Queue, QueueBounds],
    gaps: Mapping[Queue, Sequence[QueueBounds]] | None = None,
    counted: Mapping[Queue, QueueRows] | None = None,
) -> list[OffsetProblem]:
    """Return what is wrong with the files: nothing, if they have each offset of each range exactly once, and nothing else.

    Offsets within `gaps` may be missing. `counted` is what `count_rows` has returned, if the caller has it.
    """
    found = count_rows(frame) if counted is None else counted
    problems: list[OffsetProblem] = []
    for queue in sorted({*wanted, *found}):
        bounds = wanted.get(queue, QueueBounds(0, 0))
        if covers(found.get(queue), bounds):
            continue
        rows = frame.where(_is_of(queue)).select("queueOffset").sort("queueOffset").toLocalIterator()
        compared = compare_offsets(queue, bounds, (row[0] for row in rows), (gaps or {}).get(queue, ()))
        problems += islice(compared, PROBLEMS_MAX)
    return problems


def compare_offsets(
    queue: Queue, wanted: QueueBounds, offsets: Iterable[int], gaps: Sequence[QueueBounds] = ()
) -> Iterator[OffsetProblem]:
    """Compare sorted offsets with the range that they should fill, but for its gaps, which are sorted. Pure."""
    expected, last = wanted.first, -1
    for offset in offsets:
        if offset == last:
            yield OffsetProblem(queue, offset, offset + 1, REPEATED)
        elif not wanted.first <= offset < wanted.last:
            yield OffsetProblem(queue, offset, offset + 1, BEYOND)
        else:
            if offset > expected:
                yield from _missing(queue, expected, offset, gaps)
            expected = offset + 1
        last = offset
    if expected < wanted.last:
        yield from _missing(queue, expected, wanted.last, gaps)


def _missing(queue: Queue, start: int, stop: int, gaps: Sequence[QueueBounds]) -> Iterator[OffsetProblem]:
    """Yield what of a range is in no gap."""
    for gap in gaps:
        if gap.last <= start or gap.first >= stop:
            continue
        if start < gap.first:
            yield OffsetProblem(queue, start, gap.first, MISSING)
        start = gap.last
    if start < stop:
        yield OffsetProblem(queue, start, stop, MISSING)


def _is_of(queue: Queue) -> str:
    return f"topic = {literal(queue.topic)} AND broker = {literal(queue.broker_name)} AND queueId = {queue.queue_id}"
