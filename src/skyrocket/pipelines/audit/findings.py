"""Decides what is missing, repeated and late in a producer's messages of one queue, from their runs. Pure.

    stored 1–3, 5–6, 4–4, 6–6, 9–9      missing 7–8        late 4 (after 6)        repeated 6

A number is *missing* while a higher one is there, or while its producer says that it sent it. It is *late* when it comes after a
higher one, which is disorder and no loss, and *repeated* when it came before. Each run costs a search in the open gaps, whatever
its length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from skyrocket.client.helpers.loss_detection import Gap
from skyrocket.client.queues import Queue

RANGES_MAX: Final = 100_000  # of one kind and stream that are named; beyond, they are only counted


class NumberRun(NamedTuple):
    """A run of one stream: numbers `first` to `last`, the first of them at `first_offset`."""

    first: int
    last: int
    first_offset: int
    is_consumed: bool = False

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class NumberRanges:
    """Ranges of numbers that were found, in the order in which they were: bounded, with a count of all."""

    __slots__ = ("count", "ranges")

    def __init__(self) -> None:
        self.ranges: list[Gap] = []
        self.count = 0

    def add(self, first: int, last: int) -> None:
        self.count += last - first + 1
        if self.ranges and self.ranges[-1].last + 1 == first:
            self.ranges[-1] = Gap(self.ranges[-1].first, last)
        elif len(self.ranges) < RANGES_MAX:
            self.ranges.append(Gap(first, last))

    def load(self, count: int, ranges: Iterable[tuple[int, int]]) -> None:
        """Become what another one was."""
        self.count, self.ranges = count, [Gap(first, last) for first, last in ranges]


class SequenceState:
    """What is known of one stream (one producer, one queue) after the runs so far. Takes runs in the order of their offsets."""

    def __init__(self, begins_at: int) -> None:
        self._gap_firsts: list[int] = []  # of the open gaps, ascending
        self._gap_lasts: list[int] = []
        self.highest = begins_at - 1
        self.stored = 0  # messages, repeats included
        self.consumed = 0
        self.repeated = NumberRanges()
        self.late = NumberRanges()

    @classmethod
    def of(cls, highest: int, stored: int, gaps: Iterable[tuple[int, int]]) -> Self:
        """Make the state that had these figures."""
        state = cls(highest + 1)
        state.stored = stored
        for first, last in gaps:
            state._gap_firsts.append(first)
            state._gap_lasts.append(last)
        return state

    def add(self, run: NumberRun) -> None:
        """Take the next run."""
        self.stored += run.length
        self.consumed += run.length if run.is_consumed else 0
        before = self.highest
        if run.first > before + 1:
            self._gap_firsts.append(before + 1)
            self._gap_lasts.append(run.first - 1)
        self.highest = max(before, run.last)
        if run.first <= before:
            self._fill(run.first, min(run.last, before))

    def _fill(self, first: int, last: int) -> None:
        """Take numbers that are not higher than the highest before them: in a gap they are late, elsewhere repeated."""
        at = bisect_left(self._gap_lasts, first)
        while first <= last:
            if at == len(self._gap_firsts) or self._gap_firsts[at] > last:
                self.repeated.add(first, last)
                return
            gap_first, gap_last = self._gap_firsts[at], self._gap_lasts[at]
            if first < gap_first:
                self.repeated.add(first, gap_first - 1)
                first = gap_first
            filled = min(last, gap_last)
            self.late.add(first, filled)
            at = self._cut_gap(at, first, filled)
            first = filled + 1

    def _cut_gap(self, at: int, first: int, last: int) -> int:
        """Take numbers out of a gap. Returns the index of the gap behind them."""
        rest = [(a, b) for a, b in ((self._gap_firsts[at], first - 1), (last + 1, self._gap_lasts[at])) if a <= b]
        self._gap_firsts[at : at + 1] = [a for a, _ in rest]
        self._gap_lasts[at : at + 1] = [b for _, b in rest]
        return at + (1 if rest and rest[0][1] < first else 0)

    def gaps(self, sent: int | None = None) -> list[Gap]:
        """Return the missing numbers, up to `sent` if the producer says how many it sent."""
        found = [Gap(first, last) for first, last in zip(self._gap_firsts, self._gap_lasts, strict=True)]
        if sent is not None and sent > self.highest:
            found.append(Gap(self.highest + 1, sent))
        return found


@dataclass(frozen=True, slots=True)
class StreamAudit:
    """What the audit found about one producer in one queue."""

    producer: str
    queue: Queue
    sent: int  # the highest number that was stored, or that the producer says
    is_sent_known: bool  # whether the producer said it
    stored: int  # messages, repeats included
    consumed: int | None  # messages before the group's committed offset; None: no group was asked about
    gaps: Sequence[Gap]
    repeated: Sequence[Gap]
    late: Sequence[Gap]
    repeated_count: int
    late_count: int

    @property
    def missing(self) -> int:
        return sum(gap.last - gap.first + 1 for gap in self.gaps)

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.repeated_count or self.late_count)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the audit found, stream by stream."""

    streams: Sequence[StreamAudit]
    unstamped: dict[Queue, int] = field(default_factory=dict)
    messages: int = 0

    @property
    def missing(self) -> int:
        return sum(stream.missing for stream in self.streams)

    @property
    def repeated(self) -> int:
        return sum(stream.repeated_count for stream in self.streams)

    @property
    def late(self) -> int:
        return sum(stream.late_count for stream in self.streams)

    @property
    def is_clean(self) -> bool:
        return all(stream.is_clean for stream in self.streams)


class StreamKey(NamedTuple):
    """A producer and a queue."""

    producer: str
    queue: Queue


def audit_stream(
    key: StreamKey, runs: Iterable[NumberRun], *, begins_at: int | None = 1, sent: int | None = None, has_group: bool = False
) -> StreamAudit:
    """Audit one stream. `begins_at` is the number of its first message; None: the lowest that was read."""
    ordered = sorted(runs, key=lambda run: run.first_offset)
    if begins_at is None:
        begins_at = min((run.first for run in ordered), default=1)
    state = SequenceState(begins_at)
    for run in ordered:
        state.add(run)
    return stream_audit(key, state, sent=sent, has_group=has_group)


def stream_audit(key: StreamKey, state: SequenceState, *, sent: int | None = None, has_group: bool = False) -> StreamAudit:
    """Return what a state says."""
    return StreamAudit(
        producer=key.producer,
        queue=key.queue,
        sent=max(state.highest, sent or 0),
        is_sent_known=sent is not None,
        stored=state.stored,
        consumed=state.consumed if has_group else None,
        gaps=state.gaps(sent),
        repeated=state.repeated.ranges,
        late=state.late.ranges,
        repeated_count=state.repeated.count,
        late_count=state.late.count,
    )
