"""A compiled expression that decides whether a message passes."""

from __future__ import annotations

from skyrocket.broker.pull.sql.errors import UndecidedError
from skyrocket.broker.pull.sql.evaluate import END, compile_condition
from skyrocket.broker.pull.sql.limits import NODES_PER_READ_MAX
from skyrocket.broker.pull.sql.parser import parse
from skyrocket.protocol.message.record import properties_of


class SqlFilter:
    """A compiled filter expression. The constructor raises ExpressionError for an invalid text."""

    __slots__ = ("_decide", "_nodes", "expression")

    def __init__(self, expression: str) -> None:
        parsed = parse(expression)
        self.expression = expression
        self._nodes = parsed.nodes
        self._decide = compile_condition(parsed.tree)

    @property
    def messages_per_read_max(self) -> int:
        """Return how many messages one read may examine, so that an expensive expression does not block other clients."""
        return max(16, NODES_PER_READ_MAX // self._nodes)

    def decide(self, properties: bytes) -> bool | None:
        """Evaluate the expression for encoded properties: true, false or null. Raise UndecidedError on a type mismatch."""
        return self._decide(END + properties)

    def passes(self, record: memoryview) -> bool:
        """Whether a message passes. A message that cannot be decided does not: a second attempt would have the same result."""
        try:
            return self._decide(END + properties_of(record)) is True
        except UndecidedError:
            return False
