"""Tags of messages, subscription expressions of consumers, and the hashes by which brokers compare them.

A consume queue stores Java's hash of each message's tag, and a consumer sends the hashes of the tags that it subscribes to.
Different tags may have the same hash, so a consumer compares the tags again.
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
_JAVA_BLANKS = "".join(map(chr, range(0x21)))  # what Java's trim removes; Python's strip would remove more
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_CACHED_CHARACTERS_MAX = 64  # longer tags are not cached, which bounds the cache's memory


def java_hash(text: str) -> int:
    """Compute Java's String.hashCode: a polynomial in 31 over UTF-16 units, modulo 2 to the 32nd, signed."""
    units: Sequence[int] = text.encode() if text.isascii() else memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


_cached_hash = lru_cache(maxsize=4096)(java_hash)


def tags_code(tags: str | None) -> int:
    """Return the tag hash that a consume queue stores for a message. A text with several tags is hashed as a whole."""
    if not tags:
        return NO_TAG
    return _cached_hash(tags) if len(tags) <= _CACHED_CHARACTERS_MAX else java_hash(tags)


def subscription_tags(expression: str | None) -> frozenset[str] | None:
    """Return the tags of an expression such as "A || B".

    None stands for all messages ("*", or no expression), and an empty set, from blanks alone, for no message. As in Java, a star
    beside other tags is a tag like them.
    """
    if not expression or expression == EVERY_TAG:
        return None
    words = expression.split(_OR)
    if not any(words):
        raise SubscriptionError(f"A subscription's expression is {expression!r}: there is no tag between its bars.")
    return frozenset(filter(None, (word.strip(_JAVA_BLANKS) for word in words)))


def subscription_codes(expression: str | None) -> frozenset[int] | None:
    """Return the hashes of an expression's tags, or None for all messages."""
    words = subscription_tags(expression)
    return None if words is None else frozenset(map(tags_code, words))
