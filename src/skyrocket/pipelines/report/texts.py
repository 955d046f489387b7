"""Texts of a report: numbers, durations and times for people, and escaping for HTML. Pure."""

from __future__ import annotations

import html
from typing import Final

from skyrocket.doctor.texts import count_of, format_duration, format_moment, format_number
from skyrocket.pipelines.report.limits import CELL_CHARACTERS_MAX

__all__ = [
    "count_of",
    "escape_text",
    "format_duration",
    "format_moment",
    "format_number",
    "short_number",
    "shorten",
]

_SUFFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_KEPT_CONTROLS: Final = frozenset("\n\t")


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


def short_number(value: float) -> str:
    """Format a number in few characters, such as 12.5k, for axes."""
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"
