"""Search in a list of names, and one page of what was found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from skyrocket.console.limits import ROWS_PER_PAGE

T = TypeVar("T")


class ListPage(NamedTuple, Generic[T]):
    """A page of a list."""

    rows: Sequence[T]
    number: int  # from 1
    pages: int
    total: int  # rows of all pages

    @property
    def first(self) -> int:
        """The number of the page's first row, from 1; 0 when there is none."""
        return (self.number - 1) * ROWS_PER_PAGE + 1 if self.rows else 0

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1 if self.rows else 0


def cut_page(rows: Sequence[T], number: int) -> ListPage[T]:
    """Return a page of rows. A number beyond the last page means the last page."""
    pages = max(1, -(-len(rows) // ROWS_PER_PAGE))
    number = min(max(1, number), pages)
    start = (number - 1) * ROWS_PER_PAGE
    return ListPage(rows[start : start + ROWS_PER_PAGE], number, pages, len(rows))


def search_names(names: Sequence[str], words: str) -> list[str]:
    """Return the names that contain every word, in any case. Names that begin with the first word come first."""
    wanted = words.lower().split()
    if not wanted:
        return list(names)
    found = [name for name in names if all(word in name.lower() for word in wanted)]
    return sorted(found, key=lambda name: not name.lower().startswith(wanted[0]))  # stable: otherwise in their order
