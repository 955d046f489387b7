"""Every bound of an expression in one place: clients write expressions, and each message of a topic is measured with them."""

from __future__ import annotations

from typing import Final

EXPRESSION_LENGTH_MAX: Final = 16_384
"""Characters. Apache has no bound."""

NODES_MAX: Final = 4_096
"""Properties, constants and operators of one expression."""

NESTING_MAX: Final = 64
"""Operators inside operators; a chain of ANDs or of ORs is one level. Apache's bound is the stack of its thread."""

IN_WORDS_MAX: Final = 2_048
"""Words in the brackets of one IN."""

NODES_PER_READ_MAX: Final = 262_144
"""What one read of a queue may cost: nodes of the expression times messages looked at. The pull comes again for the rest."""

FILTERS_KEPT_MAX: Final = 1_024
FILTERS_KEPT_LENGTH_MAX: Final = 1_048_576
"""Filters that are remembered, and the characters of their expressions together."""
