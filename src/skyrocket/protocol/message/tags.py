"""Tags: the word by which consumers choose messages, as the number by which brokers compare it.

A consume queue stores each message's tag as Java's hash of it; a consumer sends the hashes that it wants. Different tags may
share a hash, so a consumer compares the words again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skyrocket.protocol.errors import SubscriptionError

NO_TAG: Final = 0
EVERY_TAG: Final = "*"
_OR = "||"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))  # what Java's trim takes away; Python's strip would take more
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_REMEMBERED_CHARACTERS_MAX = 64  # longer words are hashed each time, so that what is remembered stays small


def java_hash(text: str) -> int:
    """Java's String.hashCode: a polynomial in 31 over UTF-16 units, modulo 2 to the 32nd, signed."""
    units: Sequence[int] = text.encode() if text.isascii() else memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


_remembered_hash = lru_cache(maxsize=4096)(java_hash)


def tags_code(tags: str | None) -> int:
    """What a consume queue stores for a message with these tags. The word is hashed whole, also where it holds several."""
    if not tags:
        return NO_TAG
    return _remembered_hash(tags) if len(tags) <= _REMEMBERED_CHARACTERS_MAX else java_hash(tags)


def subscription_tags(expression: str | None) -> frozenset[str] | None:
    """The words of "A || B". None is every message ("*", or nothing said); an empty set, from blanks alone, is no message.

    A star beside other words is a word like them: that is how Java reads it.
    """
    if not expression or expression == EVERY_TAG:
        return None
    words = expression.split(_OR)
    if not any(words):
        raise SubscriptionError(f"A subscription's expression is {expression!r}: it has no tag between its bars.")
    return frozenset(filter(None, (word.strip(_JAVA_BLANKS) for word in words)))


def subscription_codes(expression: str | None) -> frozenset[int] | None:
    """The hashes of an expression's words; None is every message."""
    words = subscription_tags(expression)
    return None if words is None else frozenset(map(tags_code, words))
