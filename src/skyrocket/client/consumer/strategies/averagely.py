"""Neighbouring queues to each member, the first ones one more where it does not come out even: 8 by 3 is 3, 3, 2. The default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocket.client.consumer.strategies.strategy import is_member
from skyrocket.client.queues import Queue


class Averagely:
    name: Final = "AVG"

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        index = client_ids.index(client_id)
        each, left_over = divmod(len(queues), len(client_ids))
        start = index * each + min(index, left_over)
        return list(queues[start : start + each + (index < left_over)])
