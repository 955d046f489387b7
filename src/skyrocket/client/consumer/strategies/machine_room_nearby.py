"""A machine room's queues to the members in that room; those of a room without members to everyone.

How those that share do it is another strategy's. Where a broker or a member stands, two functions say: from the queue, as a rule
by its broker's name, and from the client's id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.client.consumer.strategies.averagely import Averagely
from skyrocket.client.consumer.strategies.strategy import RebalanceError, Strategy, is_member
from skyrocket.client.queues import Queue, java_order


class MachineRoomNearby:
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
            queues_of.setdefault(_named(self._room_of_queue(queue), queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for member in client_ids:
            members_of.setdefault(_named(self._room_of_client(member), member), []).append(member)

        here = self._room_of_client(client_id)
        mine: list[Queue] = []
        if here in queues_of:
            mine += self._within.allocate(group, client_id, queues_of[here], members_of[here])
        for room in sorted(queues_of.keys() - members_of.keys(), key=java_order):
            mine += self._within.allocate(group, client_id, queues_of[room], client_ids)
        return mine


def _named(room: str, what: Queue | str) -> str:
    if not room:
        raise RebalanceError(f"No machine room is known for {what}.")
    return room
