"""Members stand on a ring, each at several points; a queue belongs to whoever stands next. Who comes or goes moves few queues.

A point is the first four bytes of the MD5 of "id-0", "id-1", …; a queue's place is that of Java's text for it. Both are the
wire between members: every one must compute the same ring.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Final

from skyrocket.client.consumer.strategies.strategy import RebalanceError, is_member
from skyrocket.client.queues import Queue

POINTS: Final = 10  # of each member


class ConsistentHash:
    name: Final = "CONSISTENT_HASH"

    def __init__(self, points: int = POINTS, place: Callable[[str], int] | None = None) -> None:
        """`place` is where on the ring a text stands; another than MD5 must be every member's."""
        if points < 0:
            raise RebalanceError(f"A member cannot stand at {points} points of the ring.")
        self._points = points
        self._place = place or md5_place

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        ring = self._ring(client_ids)
        places = sorted(ring)
        if not places:
            return []
        mine = []
        for queue in queues:
            behind = bisect_left(places, self._place(java_text(queue)))
            if ring[places[behind % len(places)]] == client_id:
                mine.append(queue)
        return mine

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """Place -> member. Of two at one place the later one stays; a member named twice goes on counting its points."""
        ring: dict[int, str] = {}
        standing: Counter[str] = Counter()
        for client_id in client_ids:
            already = standing[client_id]
            for number in range(already, already + self._points):
                place = self._place(f"{client_id}-{number}")
                if place in ring:
                    standing[ring[place]] -= 1
                ring[place] = client_id
                standing[client_id] += 1
        return ring


def md5_place(text: str) -> int:
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def java_text(queue: Queue) -> str:
    """What Java's MessageQueue.toString says."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
