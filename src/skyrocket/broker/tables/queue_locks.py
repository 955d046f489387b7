"""Queue locks: an orderly consumer locks its queues before it consumes them, and renews the locks every 20 s.

    lock(group, client, queues, now_ms)         lock queues; returns those that the client holds now
    unlock(group, client, queues)               release queues
    is_locked(group, now_ms)                    whether any queue of the group is locked

A lock that is not renewed for 60 s may be taken by any client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skyrocket.broker.limits import LOCKS_MAX
from skyrocket.protocol.bodies import MessageQueue

LOCK_MS: Final = 60_000  # Apache's rocketmq.broker.rebalance.lockMaxLiveTime
SWEEP_MS: Final = 1_000  # the shortest time between two searches of a full table for expired locks


class QueueLockTable:
    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, tuple[str, int]]] = {}  # group -> queue -> (client, since)
        self._count = 0
        self._swept_ms = -SWEEP_MS

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Lock the free ones of `queues`; return all that the client holds, each once. A full table gives no new locks."""
        held = self._locks.setdefault(group, {})
        locked: dict[MessageQueue, None] = {}
        for queue in queues:
            lock = held.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX and not self._make_room(now_ms):
                    continue
                self._count += 1
            elif lock[0] != client_id and now_ms - lock[1] <= LOCK_MS:
                continue
            held[queue] = (client_id, now_ms)
            locked[queue] = None
        if held:
            self._locks[group] = held
        else:
            self._locks.pop(group, None)
        return list(locked)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release the client's locks on these queues. Locks of other clients stay."""
        held = self._locks.get(group)
        if held is None:
            return
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock[0] == client_id:
                del held[queue]
                self._count -= 1
        if not held:
            del self._locks[group]

    def is_locked(self, group: str, now_ms: int) -> bool:
        """Whether a consumer of the group holds a lock, which means that the group consumes in order."""
        return any(now_ms - since_ms <= LOCK_MS for _, since_ms in self._locks.get(group, {}).values())

    def expire(self, now_ms: int) -> int:
        """Remove expired locks; return how many."""
        before = self._count
        for group, held in list(self._locks.items()):
            for queue in [queue for queue, (_, since_ms) in held.items() if now_ms - since_ms > LOCK_MS]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._locks[group]
        return before - self._count

    def _make_room(self, now_ms: int) -> bool:
        if now_ms - self._swept_ms < SWEEP_MS:
            return False
        self._swept_ms = now_ms
        return self.expire(now_ms) > 0
