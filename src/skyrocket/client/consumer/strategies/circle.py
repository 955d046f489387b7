"""Circle: deals the queues out in turn, the first queue to the first member, the second to the second, and round again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocket.client.consumer.strategies.strategy import is_member
from skyrocket.client.queues import Queue


class Circle:
    """Deals the queues out in turn: the first queue to the first member, the second to the second, and round again."""

    name: Final = "AVG_BY_CIRCLE"

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])
