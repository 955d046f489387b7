"""Split a message's properties into what differs between a producer's messages and what is the same for most of them.

    TAGS 1 red 2 UNIQ_KEY 1 7F00…12 2 KEYS 1 order-7 paid 2 WAIT 1 true 2           1 and 2 are the separators
    `before`     `unique_key`        `keys`                `after`

`before` and `after`, without the keys, are the same for most messages of a producer, so the broker looks up once what they mean.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skyrocket.protocol.message.properties import KEY_SEPARATOR, KEYS, NAME_END, UNIQUE_KEY, VALUE_END

_UNIQUE: Final = UNIQUE_KEY + NAME_END
_KEYS: Final = KEYS + NAME_END


class SplitProperties(NamedTuple):
    before: str  # the properties before the unique key; all of them when there is none
    unique_key: str  # empty when there is none
    keys: tuple[str, ...]  # of the property KEYS
    after: str  # the properties behind the unique key


def split_properties(text: str) -> SplitProperties | None:
    """Split encoded properties. Return None when the unique key has no end, or would need escapes in JSON."""
    before, is_there, rest = text.partition(_UNIQUE)
    unique_key, after = "", ""
    if is_there:
        unique_key, ended, after = rest.partition(VALUE_END)
        if not ended or not (unique_key.isascii() and unique_key.isalnum()):
            return None
    before, keys = _cut_keys(before)
    if not keys:
        after, keys = _cut_keys(after)
    return SplitProperties(before, unique_key, tuple([key for key in keys.split(KEY_SEPARATOR) if key]), after)


def _cut_keys(text: str) -> tuple[str, str]:
    """Cut the first property KEYS out of a text and return its value, or "" if it is missing, malformed or not ended."""
    start = 0 if text.startswith(_KEYS) else text.find(VALUE_END + _KEYS) + 1
    if not start and not text.startswith(_KEYS):
        return text, ""
    value, ended, rest = text[start + len(_KEYS) :].partition(VALUE_END)
    if not ended or NAME_END in value:
        return text, ""
    return (text[:start] + rest, value) if value else (text, "")
