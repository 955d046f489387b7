"""Consistent hashing: members stand on a hash ring, and a queue goes to the next member. A new or lost member moves few queues.

Each member has several virtual nodes on the ring. The hash of a node is the first four bytes of the MD5 of "id-0", "id-1", …; the
hash of a queue is that of Java's text for it. All members must compute the same ring, so both are part of the protocol.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import md5
from typing import Final

from skyrocket.client.consumer.strategies.strategy import RebalanceError, is_member
from skyrocket.client.queues import Queue

VIRTUAL_NODES: Final = 10  # for each member


class ConsistentHash:
    """Places members on a hash ring; a queue goes to the next member. A new or lost member moves few queues."""

    name: Final = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES, hash_function: Callable[[str], int] | None = None) -> None:
        """`hash_function` replaces MD5. All members of the group must use the same."""
        if virtual_nodes < 0:
            raise RebalanceError(f"virtual_nodes must not be negative, but is {virtual_nodes}.")
        self._virtual_nodes = virtual_nodes
        self._hash = hash_function or md5_hash

    def allocate(self, _group: str, client_id: str, queues: Sequence[Queue], client_ids: Sequence[str], /) -> list[Queue]:
        if not is_member(client_id, queues, client_ids):
            return []
        ring = self._ring(client_ids)
        hashes = sorted(ring)
        if not hashes:
            return []
        mine = []
        for queue in queues:
            next_node = bisect_left(hashes, self._hash(java_text(queue)))
            if ring[hashes[next_node % len(hashes)]] == client_id:
                mine.append(queue)
        return mine

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """Return hash -> member, as Apache's router builds it.

        If two nodes have the same hash, the later one replaces the earlier. A member that is listed twice continues its numbers.
        """
        ring: dict[int, str] = {}
        nodes: Counter[str] = Counter()
        for client_id in client_ids:
            existing = nodes[client_id]
            for number in range(existing, existing + self._virtual_nodes):
                node_hash = self._hash(f"{client_id}-{number}")
                if node_hash in ring:
                    nodes[ring[node_hash]] -= 1
                ring[node_hash] = client_id
                nodes[client_id] += 1
        return ring


def md5_hash(text: str) -> int:
    """Return the first four bytes of the MD5, as Apache's client does."""
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def java_text(queue: Queue) -> str:
    """Return what Java's MessageQueue.toString returns."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
