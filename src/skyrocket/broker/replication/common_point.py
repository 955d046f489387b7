"""Find where the logs of a slave and its master part. Pure.

    slave    | a | b | c | x | y |
    master   | a | b | c | d | e | f |
                         ^ the common point: the slave gives up x and y, and continues with d

Two logs are equal up to a record that both have at the same place with the same bytes: a record names its place, its time and its
host, so nothing but a copy is equal to it. Records before the common point are all equal, records behind it are not. So a few
comparisons find it: first the last record of the slave, which nearly always is equal; then the first record of each segment; then
the records of one segment, several at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocket.store.replica.log_reader import LogSpan

PROBES_MAX: Final = 64  # records that are compared at once


class BoundarySearch:
    """Finds the last of many records that is equal, when those before it are equal and those behind it are not."""

    def __init__(self, spans: Sequence[LogSpan], probes_max: int = PROBES_MAX) -> None:
        self._spans = spans
        self._probes_max = probes_max
        self._equal = -1  # the last one that is known to be equal
        self._unequal = len(spans)  # the first one that is known not to be
        self._asked: list[int] = []

    def next_probes(self) -> list[LogSpan]:
        """Return records to compare; none when the search is over."""
        between = self._unequal - self._equal - 1
        count = min(between, self._probes_max)
        self._asked = [self._equal + (number * (between + 1)) // (count + 1) for number in range(1, count + 1)]
        return [self._spans[index] for index in self._asked]

    def take_answers(self, are_equal: Sequence[bool]) -> None:
        """Take the answers about the probes, in their order."""
        assert len(are_equal) == len(self._asked)
        for index, is_equal in zip(self._asked, are_equal, strict=True):
            if not is_equal:
                self._unequal = index
                break
            self._equal = index

    @property
    def last_equal(self) -> LogSpan | None:
        return self._spans[self._equal] if self._equal >= 0 else None
