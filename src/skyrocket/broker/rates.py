"""How fast messages come and go, as the handlers of statistics ask for it."""

from __future__ import annotations

from typing import Protocol


class Rates(Protocol):
    """Messages a second, over the last minute or so."""

    def topic_put(self, topic: str) -> float: ...

    def group_get(self, group: str, topic: str) -> float: ...


class NoRates:
    """Where nobody counts."""

    def topic_put(self, topic: str) -> float:  # noqa: ARG002
        return 0.0

    def group_get(self, group: str, topic: str) -> float:  # noqa: ARG002
        return 0.0
