"""Log lines that a stranger can cause. Text from outside is escaped and cut, and lines of one kind are throttled.

    outside = OutsideLog(log)
    outside.warning("An end of a transaction from %s was not accepted: %s", peer, error)

A kind is the line's fixed text. Each kind may fill LINES_MAX lines in WINDOW_S. The first line of the next window says how many
were left out. So nobody can forge lines, hide others among them, or fill a disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LINES_MAX: Final = 10
WINDOW_S: Final = 60.0
VALUE_LENGTH_MAX: Final = 300
KINDS_MAX: Final = 1_000  # more than there are in the code: a guard against a kind that is not fixed


def escape(value: object) -> str:
    """Return the text of a value with everything that is not printable escaped, cut to VALUE_LENGTH_MAX characters."""
    text = str(value)
    if len(text) > VALUE_LENGTH_MAX:
        text = f"{text[:VALUE_LENGTH_MAX]}…"
    if text.isprintable():
        return text
    return "".join([sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text])


@dataclass(slots=True)
class _Kind:
    window_began_s: float
    lines: int = 0
    left_out: int = 0


class OutsideLog:
    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._kinds: dict[str, _Kind] = {}

    def info(self, text: str, *values: object) -> None:
        self._write(logging.INFO, text, values)

    def warning(self, text: str, *values: object) -> None:
        self._write(logging.WARNING, text, values)

    def error(self, text: str, *values: object) -> None:
        self._write(logging.ERROR, text, values)

    def _write(self, level: int, text: str, values: tuple[object, ...]) -> None:
        if not self._log.isEnabledFor(level):
            return
        now_s = self._now_s()
        kind = self._kinds.get(text)
        if kind is None:
            assert len(self._kinds) < KINDS_MAX, "the text of a line has to be fixed"
            kind = self._kinds[text] = _Kind(now_s)
        left_out = 0
        if now_s - kind.window_began_s >= WINDOW_S:
            left_out, self._kinds[text] = kind.left_out, (kind := _Kind(now_s))
        if kind.lines >= LINES_MAX:
            kind.left_out += 1
            return
        kind.lines += 1
        shown = [value if isinstance(value, (int, float)) else escape(value) for value in values]
        if left_out:
            self._log.log(level, f"{text} (%d more lines like this one were left out.)", *shown, left_out)
        else:
            self._log.log(level, text, *shown)
