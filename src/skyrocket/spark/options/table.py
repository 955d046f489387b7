"""Tables of options. A row holds an option's name, its parser, its default and its meaning. Spark passes every option as text.

    SOURCE = OptionTable("the source rocketmq", (Option("subscribe", names, meaning="topics to read, separated by commas"), …))
    values = SOURCE.read(options)        # {"subscribe": ("orders", "users"), …}: each row's value, or its default

Names are case-insensitive, as in Spark. A table refuses unknown names: a misspelled option would otherwise silently have no
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from skyrocket.spark.errors import OptionError


class Option(NamedTuple):
    name: str
    parse: Callable[[str], Any]  # raises ValueError with what is valid: "a whole number of at least 1"
    default: Any = None
    meaning: str = ""  # for docs/spark.md
    only: str = ""  # "batch" or "stream" if the option has no effect on the other


class OptionTable:
    def __init__(self, owner: str, rows: tuple[Option, ...]) -> None:
        self.owner = owner  # for error messages
        self._rows = {row.name.lower(): row for row in rows}
        assert len(self._rows) == len(rows), "two options have the same name"

    def __iter__(self) -> Iterator[Option]:
        return iter(self._rows.values())

    def read(self, options: Mapping[str, str]) -> dict[str, Any]:
        values = {row.name: row.default for row in self}
        for given, text in options.items():
            row = self._rows.get(given.lower())
            if row is None:
                raise OptionError(self._unknown_option(given))
            values[row.name] = parse_option(row, text)
        return values

    def _unknown_option(self, given: str) -> str:
        near = get_close_matches(given.lower(), list(self._rows), n=1)
        hint = (
            f"Did you mean '{self._rows[near[0]].name}'?" if near else f"Its options are: {', '.join(row.name for row in self)}."
        )
        return f"Option '{given}' does not exist for {self.owner}. {hint}"


def parse_option(row: Option, text: str) -> Any:
    try:
        return row.parse(str(text))
    except ValueError as error:
        raise OptionError(f"Option '{row.name}' is '{text}'. It must be {error}.") from error


# --- parsers


def word(text: str) -> str:
    if not text.strip():
        raise ValueError("a name that is not empty")
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Parse names that are separated by commas."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError("one or more names, separated by commas")
    if len(set(found)) != len(found):
        raise ValueError("a list of names without duplicates")
    return found


def flag(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("true or false")
    return value == "true"


def whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a parser of whole numbers within these bounds."""
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
    """Parse a duration as Spark writes it, such as 15m, 30s or 500ms. A number without a unit is milliseconds."""
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
