"""Which messages of a source are replayed, as conditions of Spark SQL over the source's columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skyrocket.pipelines.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Every condition that is given must hold."""

    topics: Sequence[str] = ()  # of the source; none: all
    from_ms: int | None = None  # store time
    until_ms: int | None = None  # store time, not included
    keys: Sequence[str] = ()  # one of them
    tags: Sequence[str] = ()  # one of them
    where: str | None = None  # an SQL condition over the columns

    def __post_init__(self) -> None:
        if self.from_ms is not None and self.until_ms is not None and self.from_ms >= self.until_ms:
            raise ArgumentError(f"The time range is empty: it begins at {self.from_ms} ms and ends at {self.until_ms} ms.")
        if self.where is not None and not self.where.strip():
            raise ArgumentError("The condition is empty. Leave --where out, or write one such as \"tags = 'paid'\".")

    def conditions(self) -> list[str]:
        found = []
        if self.topics:
            found.append(f"topic IN ({_literals(self.topics)})")
        if self.from_ms is not None:
            found.append(f"storeTimestamp >= timestamp_millis({self.from_ms})")
        if self.until_ms is not None:
            found.append(f"storeTimestamp < timestamp_millis({self.until_ms})")
        if self.keys:
            found.append(f"arrays_overlap(keys, array({_literals(self.keys)}))")
        if self.tags:
            found.append(f"tags IN ({_literals(self.tags)})")
        if self.where is not None:
            found.append(f"({self.where})")
        return found


def _literals(texts: Sequence[str]) -> str:
    return ", ".join(map(literal, texts))


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
