"""How many label sets one metric may show. What is beyond the limit is put together into one row.

    topic="orders"    12        shown, because it was there first
    topic="payments"   7
    topic="(other)"   31        the sum of all others: no real topic has parentheses in its name

A label set that was shown once keeps its place, so that no counter jumps. Places of topics that are gone are free again, but only
while nothing is put together: a counter that left the sum for a row of its own would look like a restart.
"""

from __future__ import annotations

import logging
from typing import Final

from skyrocket.metrics.family import Family, Fold, LabelValues, Row
from skyrocket.metrics.histogram import HistogramState

log = logging.getLogger(__name__)

OTHER: Final = "(other)"


class SeriesLimit:
    """The limit of one family, from scrape to scrape: `take` each row, then `finish`."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._shown: set[LabelValues] = set()
        self._seen: set[LabelValues] = set()  # in this scrape
        self._other: float | HistogramState | None = None
        self._folded = 0  # rows without a place, in this scrape
        self._is_told = False  # the log has a line about it

    def take(self, values: LabelValues, value: float | HistogramState, most: int) -> bool:
        """Take a row. Return whether it has a place, and is shown; otherwise it is part of the row that `finish` returns."""
        if values in self._shown or len(self._shown) < most or not values:
            self._shown.add(values)
            self._seen.add(values)
            return True
        self._folded += 1
        self._other = value if self._other is None else self._fold(self._other, value)
        return False

    def finish(self, most: int) -> Row | None:
        """Return the row for all that had no place; None when every row had one."""
        other, folded, seen = self._other, self._folded, self._seen
        self._other, self._folded, self._seen = None, 0, set()
        if other is None:
            self._shown, self._is_told = seen, False
            return None
        if not self._is_told:
            self._is_told = True
            log.warning(
                "The metric %s has %d label sets more than metricsOtelCardinalityLimit (%d) allows. They are one series: %s.",
                self._family.name,
                folded,
                most,
                OTHER,
            )
        return (OTHER,) * len(self._family.labels), other

    def _fold(self, first: float | HistogramState, second: float | HistogramState) -> float | HistogramState:
        if isinstance(first, HistogramState):
            assert isinstance(second, HistogramState), f"all rows of {self._family.name} are histograms"
            return first.plus(second)
        assert not isinstance(second, HistogramState), f"no row of {self._family.name} is a histogram"
        return first + second if self._family.fold is Fold.SUM else max(first, second)
