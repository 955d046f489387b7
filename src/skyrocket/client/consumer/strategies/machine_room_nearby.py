"""Machine room nearby: queues go to members in the broker's machine room; queues of a room without members go to all members.

Another strategy divides the queues among those members. Two functions name the room of a queue, usually from its broker's name,
and of a client, from its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.client.consumer.strategies.averagely import Averagely
from skyrocket.client.consumer.strategies.strategy import RebalanceError, Strategy, is_member
from skyrocket.client.queues import Queue, java_order


class MachineRoomNearby:
    """Gives queues to members in the broker's machine room; queues of a room without members are divided among all."""

    def __init__(
        self, room_of_queue: Callable[[Queue], str], room_of_client: Callable[[str], str], within: Strategy | None = None
    ) -> None:
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client
        self._within: Strategy = within or Averagely()

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self._within.name}"

    def allocate(self, group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        queues_of: dict[str, list[Queue]] = {}
        for queue in queues:
            queues_of.setdefault(_require_room(self._room_of_queue(queue), queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for member in client_ids:
            members_of.setdefault(_require_room(self._room_of_client(member), member), []).append(member)

        here = self._room_of_client(client_id)
        mine: list[Queue] = []
        if here in queues_of:
            mine += self._within.allocate(group, client_id, queues_of[here], members_of[here])
        for room in sorted(queues_of.keys() - members_of.keys(), key=java_order):
            mine += self._within.allocate(group, client_id, queues_of[room], client_ids)
        return mine


def _require_room(room: str, what: Queue | str) -> str:
    if not room:
        raise RebalanceError(f"No machine room for {what}: the function that names the room returned an empty text.")
    return room
