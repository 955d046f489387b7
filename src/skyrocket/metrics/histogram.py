"""A histogram of durations: how many were at most as long as each bound.

Durations are observed once for each turn of the event loop, flush or append, never for each message. An observation is a binary
search among fifteen bounds and two additions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

DURATION_BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""From a tenth of a millisecond, about what a turn of a quiet broker takes, to five seconds, when clients give up."""


class HistogramState(NamedTuple):
    """A histogram at one moment, as the exposition format has it."""

    bounds: Sequence[float]
    counts: list[int]  # cumulative: of what is at most the bound; the last one counts everything
    total: float

    def plus(self, other: HistogramState) -> HistogramState:
        """Return both together. They have the same bounds."""
        return HistogramState(
            self.bounds, [a + b for a, b in zip(self.counts, other.counts, strict=True)], self.total + other.total
        )


class Histogram:
    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = DURATION_BOUNDS_S) -> None:
        assert list(bounds) == sorted(set(bounds)), "the bounds of a histogram ascend"
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last one is of what is beyond all bounds
        self._total = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += count
        self._total += value * count

    def state(self) -> HistogramState:
        return HistogramState(self._bounds, list(accumulate(self._counts)), self._total)
