"""Decides which offsets an archive takes next. Pure.

    run = plan_run(progress, bounds)            everything up to the ends that the queues have now
    batch = next_batch(run, most=1_000_000)     the next part of it, or None

`progress` is one past the last archived message of each queue. It comes from the archive itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.pipelines.errors import ArgumentError, MissingMessagesError
from skyrocket.spark.source.admission import divide_limit
from skyrocket.spark.source.partitions import QueuePartition, plan_partitions, ranges_between

_PATTERN: Final = frozenset("*?[")


class PlanWords(NamedTuple):
    """How messages name the job that plans."""

    holder: str  # what has the offsets
    done: str  # what has happened to a message that it has
    elsewhere: str  # what to do about a topic that was created again


ARCHIVE_WORDS: Final = PlanWords("The archive", "archived", "Archive it to another folder.")


class QueueBounds(NamedTuple):
    first: int  # the first offset that exists
    last: int  # one past the last


class MissingRange(NamedTuple):
    """Offsets of a queue that were not archived before their messages were deleted."""

    queue: Queue
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.queue}, offsets {self.start} to {self.stop}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    starts: Mapping[Queue, int]
    stops: Mapping[Queue, int]
    gaps: tuple[MissingRange, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.stops[queue] - start for queue, start in self.starts.items())


def is_pattern(name: str) -> bool:
    return bool(_PATTERN & set(name))


def select_topics(wanted: Sequence[str], existing: Iterable[str]) -> list[str]:
    """Return the topics that names and patterns (orders, order-*) select. A pattern that matches nothing is an error."""
    found: dict[str, None] = {}
    known = sorted(existing)
    for name in wanted:
        if not is_pattern(name):
            found[name] = None
            continue
        matching = [topic for topic in known if fnmatchcase(topic, name)]
        if not matching:
            raise ArgumentError(f"No topic matches the pattern '{name}'.")
        found.update(dict.fromkeys(matching))
    return list(found)


def plan_run(
    progress: Mapping[Queue, int],
    bounds: Mapping[Queue, QueueBounds],
    *,
    skip_missing: bool = False,
    words: PlanWords = ARCHIVE_WORDS,
) -> RunPlan:
    """Plan everything between what is archived and what exists.

    A new queue begins at its first message. If messages behind the archived ones are gone, or a queue is shorter than its
    archive, raise MissingMessagesError; with `skip_missing`, pass over the gap and report it.
    """
    starts: dict[Queue, int] = {}
    gaps: list[MissingRange] = []
    for queue in sorted(bounds):
        first, last = bounds[queue]
        start = progress.get(queue, first)
        if start > last:
            raise MissingMessagesError(
                f"{words.holder} has {queue} up to offset {start}, but the queue ends at {last}: the topic was deleted and "
                f"created again, or its broker lost messages. {words.elsewhere}"
            )
        if start < first:
            gaps.append(MissingRange(queue, start, min(first, last)))
            start = first
        starts[queue] = start
    if gaps and not skip_missing:
        more = f", and of {len(gaps) - 1} more queues" if len(gaps) > 1 else ""
        raise MissingMessagesError(
            f"Messages were deleted before they were {words.done}: {gaps[0]}{more}. To go on without them, use --skip-missing."
        )
    return RunPlan(starts, {queue: bounds[queue].last for queue in starts}, tuple(gaps))


def next_batch(run: RunPlan, most: int) -> tuple[RunPlan, RunPlan] | None:
    """Divide a plan into its next batch of about `most` messages and the rest. Return None if nothing is left.

    Each queue gets a share in proportion to its backlog, so that all advance together.
    """
    backlog = {queue: run.stops[queue] - start for queue, start in run.starts.items() if run.stops[queue] > start}
    if not backlog:
        return None
    shares = divide_limit(backlog, most)
    stops = {queue: start + shares.get(queue, 0) for queue, start in run.starts.items()}
    return RunPlan(run.starts, stops, run.gaps), RunPlan(stops, run.stops)


def plan_tasks(batch: RunPlan, tasks: int, rows_max: int) -> list[QueuePartition]:
    """Divide a batch into ranges, one for each task: at least `tasks` of them, none with more than `rows_max` messages."""
    return plan_partitions(ranges_between(batch.starts, batch.stops), min_partitions=tasks, max_records=rows_max)
