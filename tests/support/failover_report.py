"""What the tests of fail-overs have measured: one row each, shown at the end of the run by `tests/failover/conftest.py`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

ROWS: list[tuple[str, str]] = []


def add(title: str, text: str) -> None:
    """Add a row to the report."""
    ROWS.append((title, text))


def describe_gaps(gaps: Sequence[float]) -> str:
    """The median and the longest of the seconds without an acknowledgement."""
    return f"{len(gaps)} fail-overs, median {statistics.median(gaps):.2f} s, longest {max(gaps):.2f} s"


def lines() -> list[str]:
    width = max((len(title) for title, _ in ROWS), default=0)
    return [f"{title:{width}}  {text}" for title, text in ROWS]
