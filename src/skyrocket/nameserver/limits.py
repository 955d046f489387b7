"""Every bound of the nameserver's tables. What would pass one is refused with a sentence that names it."""

from __future__ import annotations

from typing import Final

NAME_CHARACTERS_MAX: Final = 255
"""A topic, broker or cluster. Topics have 127, those for retries 255."""

ADDRESS_CHARACTERS_MAX: Final = 300
"""A host name has at most 253."""

BROKERS_MAX: Final = 10_000
"""Addresses that are registered."""

TOPICS_MAX: Final = 300_000

TOPIC_ROWS_MAX: Final = 1_000_000
"""A topic on a broker is one row, and so is the mapping of a static topic on a broker."""

KV_TEXT_MAX: Final = 4 * 1024 * 1024
"""Characters of all namespaces, keys and values together: one answer carries a whole namespace."""

KV_FILE_BYTES_MAX: Final = 8 * KV_TEXT_MAX
"""The file of them: a character is at most six bytes there."""
