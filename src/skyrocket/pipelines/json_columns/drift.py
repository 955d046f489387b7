"""Counts which fields of JSON bodies have left their columns, for a job's summary. Pure, and bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from skyrocket.pipelines.json_columns.json_schema import JsonColumns

FIELDS_MAX: Final = 1_000  # different fields that are counted one by one
_NAME_MAX: Final = 80  # characters of a name that are shown


class DriftedField(NamedTuple):
    """Values of one kind that came in a field and are not in a column."""

    field: str
    kind: str  # of the values
    column: str | None  # the kind of the field's column; None: it has none
    bodies: int

    def __str__(self) -> str:
        name = self.field[:_NAME_MAX]
        where = "there is no such column" if self.column is None else f"its column is {self.column}"
        return f"Field {name} had {self.kind} in {self.bodies:,} bodies, and {where}."


class DriftCounter:
    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.others = 0  # values of fields beyond FIELDS_MAX

    def add(self, drift: Iterable[str], times: int = 1) -> None:
        for entry in drift:
            if entry in self._counts or len(self._counts) < FIELDS_MAX:
                self._counts[entry] += times
            else:
                self.others += times

    def add_counts(self, counts: Mapping[str, int]) -> None:
        for entry, times in counts.items():
            self.add((entry,), times)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    def fields(self, columns: JsonColumns) -> list[DriftedField]:
        """Return what was counted, the most frequent first."""
        kinds = {column.name: column.kind for column in columns.columns}
        found = []
        for entry, count in self._counts.most_common():
            kind, _, name = entry.partition(":")
            found.append(DriftedField(name, kind, kinds.get(name), count))
        return found

    def document(self, columns: JsonColumns) -> list[dict[str, Any]]:
        """Return the same for --json."""
        return [field._asdict() for field in self.fields(columns)]
