"""Parse and compare numbers as Java does: which property texts are numbers, and in which order they are."""

from __future__ import annotations

import re
from typing import Final

from skyrocket.broker.pull.sql.errors import UndecidedError

INTEGER_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_BLANKS = "".join(map(chr, range(0x21)))  # the characters that Java's trim removes
_WHOLE = re.compile(r"[+-]?\d+")  # digits of any script, as in Java
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|[+-]?(?:NaN|Infinity)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def is_integer(value: int) -> bool:
    """Whether a value fits in Java's Integer. A greater one is a Long."""
    return -INTEGER_MAX - 1 <= value <= INTEGER_MAX


def whole_number(text: str, most: int) -> int:
    """Parse like Integer.valueOf or Long.valueOf, up to `most`: no blanks, no fraction."""
    if not (text.isascii() and text.isdigit()) and (not _WHOLE.fullmatch(text) or max(text) > "\uffff"):
        raise UndecidedError(f"The text '{text[:32]}' is no whole number.")
    try:
        value = int(text)
    except ValueError:  # more digits than Python's int accepts
        value = most + 1
    if not -most - 1 <= value <= most:
        raise UndecidedError(f"The text '{text[:32]}' is not between {-most - 1} and {most}.")
    return value


def double(text: str) -> float:
    """Parse like Double.valueOf, which allows surrounding blanks, hexadecimal, NaN, Infinity and a type suffix."""
    text = text.strip(_BLANKS)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1] or text)
    if found := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if text[0] == "-" else "inf")
    raise UndecidedError(f"The text '{text[:32]}' is no number.")


def double_order(left: float, right: float) -> int:
    """Compare like Double.compareTo: NaN equals itself and is greater than all others, and 0.0 is greater than -0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(value: float) -> int:
    """Rank values that are neither less nor greater than each other."""
    if value != value:  # noqa: PLR0124 — true only for NaN
        return 2
    return 0 if str(value) == "-0.0" else 1
