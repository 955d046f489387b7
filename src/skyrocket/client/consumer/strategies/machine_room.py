"""Only queues of brokers in named machine rooms, which is the part of a broker's name before its `@`, averagely.

Neighbouring queues to each member, and what does not come out even is dealt from the end of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client.consumer.strategies.strategy import is_member
from skyrocket.client.queues import Queue


class MachineRoom:
    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        self.rooms = frozenset(rooms)

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        index = client_ids.index(client_id)
        ours = [queue for queue in queues if self._is_in_a_room(queue.broker_name)]
        each, left_over = divmod(len(ours), len(client_ids))
        mine = ours[index * each : (index + 1) * each]
        if index < left_over:
            mine.append(ours[each * len(client_ids) + index])
        return mine

    def _is_in_a_room(self, broker_name: str) -> bool:
        parts = broker_name.rstrip("@").split("@")  # Java's split gives no empty parts at the end
        return len(parts) == 2 and parts[0] in self.rooms
