"""Averagely: each member gets a run of neighbouring queues; the first members get one more if there is a remainder.

8 queues among 3 members: 3, 3, 2. The default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skyrocket.client.consumer.strategies.strategy import is_member
from skyrocket.client.queues import Queue


class Averagely:
    """Gives each member a run of neighbouring queues; the first members get one more if there is a remainder. The default."""

    name: Final = "AVG"

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        index = client_ids.index(client_id)
        each, remainder = divmod(len(queues), len(client_ids))
        start = index * each + min(index, remainder)
        return list(queues[start : start + each + (index < remainder)])
