"""Errors of a filter expression: a text that is no expression, or a message that the expression cannot be decided for."""

from __future__ import annotations


class ExpressionError(ValueError):
    """The text is not a valid expression. `position` counts characters from 1."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"The expression is wrong at character {position}: {reason}.")
        self.position = position
        self.reason = reason


class UndecidedError(ValueError):
    """The expression has no result for a message, because a value of the message has the wrong type for a comparison."""
