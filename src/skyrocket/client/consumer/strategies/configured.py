"""The queues that this member was told to consume, whoever else there is. What they cover together is the operator's care."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client.queues import Queue


class Configured:
    name: Final = "CONFIG"

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues = tuple(queues)

    def allocate(self, _group: str, _client_id: str, _queues: Sequence[Queue], _client_ids: Sequence[str], /) -> list[Queue]:
        return list(self.queues)
