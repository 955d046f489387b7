"""Configured: a fixed list of queues, whatever members there are. The operator makes sure that all queues are covered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client.queues import Queue


class Configured:
    """Gives this member a fixed list of queues, whatever other members there are. The operator must cover all queues."""

    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues = tuple(queues)

    def allocate(self, _group: str, _client_id: str, _queues: Sequence[Queue], _client_ids: Sequence[str], /) -> list[Queue]:
        return list(self.queues)
