"""Machine room: only queues of brokers in the given machine rooms. The room is the part of a broker's name before the `@`.

Each member gets a run of neighbouring queues. The remainder is dealt out from the end of the list, one queue to each member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from skyrocket.client.consumer.strategies.strategy import is_member
from skyrocket.client.queues import Queue


class MachineRoom:
    """Allocates only queues of brokers in the given machine rooms: the part of a broker's name before the `@`."""

    name: Final = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        self.rooms = frozenset(rooms)

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        index = client_ids.index(client_id)
        local = [queue for queue in queues if self._is_in_room(queue.broker_name)]
        each, remainder = divmod(len(local), len(client_ids))
        mine = local[index * each : (index + 1) * each]
        if index < remainder:
            mine.append(local[each * len(client_ids) + index])
        return mine

    def _is_in_room(self, broker_name: str) -> bool:
        parts = broker_name.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(parts) == 2 and parts[0] in self.rooms
