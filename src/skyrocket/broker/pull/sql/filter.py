"""An expression that is ready to be used on messages."""

from __future__ import annotations

from skyrocket.broker.pull.sql.errors import UndecidedError
from skyrocket.broker.pull.sql.evaluate import END, deciding
from skyrocket.broker.pull.sql.limits import NODES_PER_READ_MAX
from skyrocket.broker.pull.sql.parser import parse
from skyrocket.protocol.message.record import properties_of


class SqlFilter:
    """ExpressionError when the text is no expression."""

    __slots__ = ("_decide", "_nodes", "expression")

    def __init__(self, expression: str) -> None:
        parsed = parse(expression)
        self.expression = expression
        self._nodes = parsed.nodes
        self._decide = deciding(parsed.tree)

    @property
    def messages_per_read_max(self) -> int:
        """So many messages may be looked at before others get their turn."""
        return max(16, NODES_PER_READ_MAX // self._nodes)

    def decide(self, properties: bytes) -> bool | None:
        """True, false or null for properties as they lie in a record. UndecidedError when they cannot be compared."""
        return self._decide(END + properties)

    def passes(self, record: memoryview) -> bool:
        """Whether a message is wanted. One that cannot be decided is not: it does not become comparable by being asked again."""
        try:
            return self._decide(END + properties_of(record)) is True
        except UndecidedError:
            return False
