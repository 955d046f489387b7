"""Every bound of an expression, in one place. Clients write expressions, and the broker evaluates them for each message of a
topic.
"""

from __future__ import annotations

from typing import Final

EXPRESSION_LENGTH_MAX: Final = 16_384
"""In characters. Apache has no bound."""

NODES_MAX: Final = 4_096
"""Properties, constants and operators in one expression."""

NESTING_MAX: Final = 64
"""Levels of nested operators. A chain of ANDs or of ORs is one level. Apache's bound is the stack of its thread."""

IN_WORDS_MAX: Final = 2_048
"""Words in the list of one IN."""

NODES_PER_READ_MAX: Final = 262_144
"""The cost of one read of a queue: nodes of the expression times messages examined. The next pull continues from there."""

FILTERS_KEPT_MAX: Final = 1_024
FILTERS_KEPT_LENGTH_MAX: Final = 1_048_576
"""Filters in the cache, and the characters of all their expressions."""
