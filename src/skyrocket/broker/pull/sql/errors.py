"""What can be wrong with an expression: its text, once and for all, or what a message has for it."""

from __future__ import annotations


class ExpressionError(ValueError):
    """The text is no expression. `position` counts characters from 1."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"The expression is wrong at character {position}: {reason}.")
        self.position = position
        self.reason = reason


class UndecidedError(ValueError):
    """The expression cannot be decided for a message: its values are not what they are compared with."""
