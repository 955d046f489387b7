"""Numbers as Java reads and compares them: what a property's text must look like to be one."""

from __future__ import annotations

import re
from typing import Final

from skyrocket.broker.pull.sql.errors import UndecidedError

INTEGER_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_BLANKS = "".join(map(chr, range(0x21)))  # what Java's trim takes away
_WHOLE = re.compile(r"[+-]?\d+")  # digits of any script, as Java's
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?|[+-]?(?:NaN|Infinity)")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def is_integer(value: int) -> bool:
    """Whether it fits in Java's Integer; a greater one is a Long."""
    return -INTEGER_MAX - 1 <= value <= INTEGER_MAX


def whole_number(text: str, most: int) -> int:
    """As Integer.valueOf or Long.valueOf, by the greatest value: no blanks, no fraction."""
    if not (text.isascii() and text.isdigit()) and (not _WHOLE.fullmatch(text) or max(text) > "\uffff"):
        raise UndecidedError(f"The text '{text[:32]}' is no whole number.")
    try:
        value = int(text)
    except ValueError:  # more digits than Python wants to read
        value = most + 1
    if not -most - 1 <= value <= most:
        raise UndecidedError(f"The text '{text[:32]}' is not between {-most - 1} and {most}.")
    return value


def double(text: str) -> float:
    """As Double.valueOf: blanks around it, hexadecimal, NaN, Infinity and a type's letter are allowed."""
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
    """As Double.compareTo: not a number is equal to itself and more than all others, and 0.0 is more than -0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    return (_rank(left) > _rank(right)) - (_rank(left) < _rank(right))


def _rank(value: float) -> int:
    """Among values that are neither less nor more than each other."""
    if value != value:  # noqa: PLR0124 only what is not a number
        return 2
    return 0 if str(value) == "-0.0" else 1
