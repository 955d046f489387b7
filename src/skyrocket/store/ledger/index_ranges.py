"""A set of entries of a ledger, by their indexes. Damage lies together, so ranges are kept: a lost file has a million entries."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple


class IndexRange(NamedTuple):
    """Consecutive entries, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


class IndexRanges:
    def __init__(self) -> None:
        self._ranges: list[IndexRange] = []  # in order, with a gap between each two

    def __len__(self) -> int:
        """Count the entries."""
        return sum(last - first + 1 for first, last in self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[int]:
        return (index for first, last in self._ranges for index in range(first, last + 1))

    def __contains__(self, index: int) -> bool:
        return self.covers(index, index)

    def __str__(self) -> str:
        return ", ".join(map(str, self._ranges))

    @property
    def ranges(self) -> list[IndexRange]:
        return self._ranges.copy()

    def covers(self, first: int, last: int) -> bool:
        """Whether all of these entries are in the set."""
        at = self._at(first)
        return at < len(self._ranges) and self._ranges[at].first <= first and last <= self._ranges[at].last

    def between(self, first: int, last: int) -> bool:
        """Whether one of these entries is in the set."""
        at = self._at(first)
        return at < len(self._ranges) and self._ranges[at].first <= last

    def add(self, first: int, last: int) -> None:
        start, stop = self._at(first - 1), self._at(first - 1)
        while stop < len(self._ranges) and self._ranges[stop].first <= last + 1:
            first, last = min(first, self._ranges[stop].first), max(last, self._ranges[stop].last)
            stop += 1
        self._ranges[start:stop] = [IndexRange(first, last)]

    def discard(self, first: int, last: int) -> None:
        start, stop = self._at(first), self._at(first)
        kept: list[IndexRange] = []
        while stop < len(self._ranges) and self._ranges[stop].first <= last:
            found = self._ranges[stop]
            kept += [IndexRange(found.first, first - 1)] if found.first < first else []
            kept += [IndexRange(last + 1, found.last)] if found.last > last else []
            stop += 1
        self._ranges[start:stop] = kept

    def clear(self) -> None:
        self._ranges.clear()

    def _at(self, index: int) -> int:
        """Return the number of the first range that ends at or behind an index."""
        return bisect_left(self._ranges, index, key=lambda each: each.last)
