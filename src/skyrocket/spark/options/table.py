"""Options as tables: a row for each says its name, how its text is read, and what it means. Spark gives all of them as text.

    SOURCE = OptionTable("the source rocketmq", (Option("subscribe", names, meaning="topics, with commas between"), …))
    values = SOURCE.read(options)        # {"subscribe": ("orders", "users"), …}: each row's value, or its default

Names are told apart without regard to case, as Spark's are. What is not in the table is refused, since an option with a typing
error would otherwise do nothing, silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from skyrocket.spark.errors import OptionError


class Option(NamedTuple):
    name: str
    parse: Callable[[str], Any]  # ValueError with what it should have been: "a whole number of at least 1"
    default: Any = None
    meaning: str = ""  # for the documents
    only: str = ""  # "batch" or "stream", where it says nothing about the other


class OptionTable:
    def __init__(self, owner: str, rows: tuple[Option, ...]) -> None:
        self.owner = owner  # as a sentence names it
        self._rows = {row.name.lower(): row for row in rows}
        assert len(self._rows) == len(rows), "a name stands twice"

    def __iter__(self) -> Iterator[Option]:
        return iter(self._rows.values())

    def read(self, options: Mapping[str, str]) -> dict[str, Any]:
        values = {row.name: row.default for row in self}
        for given, text in options.items():
            row = self._rows.get(given.lower())
            if row is None:
                raise OptionError(self._unknown(given))
            values[row.name] = parsed(row, text)
        return values

    def _unknown(self, given: str) -> str:
        names = [row.name for row in self]
        near = get_close_matches(given.lower(), list(self._rows), n=1)
        hint = f"did you mean '{self._rows[near[0]].name}'" if near else f"there are: {', '.join(names)}"
        return f"Option '{given}' is unknown to {self.owner}; {hint}{'?' if near else '.'}"


def parsed(row: Option, text: str) -> Any:
    try:
        return row.parse(str(text))
    except ValueError as error:
        raise OptionError(f"Option '{row.name}' is '{text}', but it has to be {error}.") from error


# --- how texts are read


def word(text: str) -> str:
    if not text.strip():
        raise ValueError("a name, not nothing")
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Several, with commas between."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("one name or several, with commas between")
    if len(set(found)) != len(found):
        raise ValueError("names that differ from each other")
    return found


def flag(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A whole number in these bounds."""
    bounds = f"a whole number of at least {least}" + ("" if most == 2**63 - 1 else f" and at most {most}")

    def parse(text: str) -> int:
        try:
            value = int(text.strip())
        except ValueError:
            raise ValueError(bounds) from None
        if not least <= value <= most:
            raise ValueError(bounds)
        return value

    return parse


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """15m, 30s, 500ms: as Spark writes durations. A bare number is milliseconds."""
    value = text.strip().lower()
    digits = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value[len(digits) :].strip() or "ms"
    if not digits.isdigit() or unit not in _UNITS_MS:
        raise ValueError("a duration such as 500ms, 30s or 15m")
    return int(digits) * _UNITS_MS[unit]


def choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        value = text.strip().lower()
        if value not in allowed:
            raise ValueError(" or ".join(allowed))
        return value

    return parse
