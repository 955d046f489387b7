"""Texts for people: numbers, sizes, durations, times, names that were perhaps meant, and escaping for HTML. Pure."""

from __future__ import annotations

import difflib
import html
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from skyrocket.report.limits import CELL_CHARACTERS_MAX

_SUFFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_KEPT_CONTROLS: Final = frozenset("\n\t")
_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


def escape_text(text: object, characters_max: int = CELL_CHARACTERS_MAX) -> str:
    """Escape a text for HTML and SVG, as content and as an attribute. Cut it when it is too long.

    Characters that a browser would drop or act on, such as NUL or a change of direction, are shown as escapes.
    """
    whole = str(text)
    cut = whole if len(whole) <= characters_max else whole[: characters_max - 1] + "…"
    visible = "".join(one if one.isprintable() or one in _KEPT_CONTROLS else _show_control(one) for one in cut)
    return html.escape(visible, quote=True)


def _show_control(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()


def shorten(text: str, characters_max: int) -> str:
    """Cut a name in its middle: names of one cluster often begin alike, and differ at their ends."""
    if len(text) <= characters_max:
        return text
    kept = characters_max - 1
    return f"{text[: kept // 2]}…{text[len(text) - (kept - kept // 2) :]}"


def format_number(value: float) -> str:
    """Format a number with separators for thousands, and without more decimals than it needs."""
    if not math.isfinite(value):
        return "–"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"


def format_bytes(size: float) -> str:
    """Format a size with the unit that fits, such as 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def short_number(value: float) -> str:
    """Format a number in few characters, such as 12.5k, for axes."""
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def format_duration(duration_ms: float | None) -> str:
    """Format a duration with its two largest units, such as 3 h 20 min. None or infinity: a dash."""
    if duration_ms is None or not math.isfinite(duration_ms):
        return "–"
    if duration_ms < 0:
        return "-" + format_duration(-duration_ms)
    if duration_ms < _SECOND_MS:
        return f"{duration_ms:.0f} ms"
    if duration_ms < _MINUTE_MS:
        return f"{duration_ms / _SECOND_MS:.3g} s"
    for size, name, smaller, smaller_name in (
        (_DAY_MS, "d", _HOUR_MS, "h"),
        (_HOUR_MS, "h", _MINUTE_MS, "min"),
        (_MINUTE_MS, "min", _SECOND_MS, "s"),
    ):
        if duration_ms >= size:
            whole, rest = divmod(int(duration_ms), size)
            return f"{whole:,} {name}" + (f" {rest // smaller} {smaller_name}" if rest // smaller else "")
    raise AssertionError(duration_ms)


def format_moment(time_ms: float) -> str:
    """Format milliseconds since 1970 in UTC. A dash when there is no time, the number when it is out of range."""
    if time_ms <= 0:
        return "–"
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms:.0f} ms"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: 1 queue, 2 queues."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a question about a known name that is near to a wrong one; an empty text if there is none."""
    names = sorted(known)
    alike = [one for one in names if one.lower() == name.lower()] or difflib.get_close_matches(name, names, 1)
    return f"Did you mean '{alike[0]}'?" if alike else ""
