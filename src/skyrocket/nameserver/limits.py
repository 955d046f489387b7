"""Every bound of the nameserver's tables. A request beyond a bound is refused with a sentence that names the bound."""

from __future__ import annotations

from typing import Final

NAME_CHARACTERS_MAX: Final = 255
"""Of a topic, broker or cluster. A topic has at most 127 characters, a retry topic 255."""

ADDRESS_CHARACTERS_MAX: Final = 300
"""A host name has at most 253 characters."""

BROKERS_MAX: Final = 10_000
"""Registered addresses."""

TOPICS_MAX: Final = 300_000

TOPIC_ROWS_MAX: Final = 1_000_000
"""One row for each topic on each broker, and one for each mapping of a static topic on a broker."""

DELETED_ROUTES_MAX: Final = 1_000
"""Topics of one broker that were deleted and that it may name once more, in a registration that was under way."""

KV_TEXT_MAX: Final = 4 * 1024 * 1024
"""Characters of all namespaces, keys and values: one response carries a whole namespace."""

KV_FILE_BYTES_MAX: Final = 8 * KV_TEXT_MAX
"""Their file: a character takes at most six bytes."""
