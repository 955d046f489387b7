"""Locks on queues: an orderly consumer asks for its queues before it consumes them, and again every 20 s.

    lock(group, client, queues, now_ms)         those that the client has now
    unlock(group, client, queues)               the client is done with them
    is_locked(group, now_ms)                    somebody has one of them

A lock that was not asked for again for 60 s is anyone's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from skyrocket.broker.limits import LOCKS_MAX
from skyrocket.protocol.bodies import MessageQueue

LOCK_MS: Final = 60_000  # Apache's rocketmq.broker.rebalance.lockMaxLiveTime
SWEEP_MS: Final = 1_000  # a full table is not looked through more often than this


class QueueLocks:
    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, tuple[str, int]]] = {}  # group -> queue -> (client, since)
        self._count = 0
        self._swept_ms = -SWEEP_MS

    def __len__(self) -> int:
        return self._count

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Those of `queues` that the client has now, each once. Where there is no room for a lock it is not given."""
        held = self._locks.setdefault(group, {})
        locked: dict[MessageQueue, None] = {}
        for queue in queues:
            lock = held.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX and not self._made_room(now_ms):
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
        """Locks of others stay."""
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
        """Whether anyone consumes for this group in order."""
        return any(now_ms - since_ms <= LOCK_MS for _, since_ms in self._locks.get(group, {}).values())

    def expire(self, now_ms: int) -> int:
        """Forget the locks that nobody asks for any more; how many."""
        before = self._count
        for group, held in list(self._locks.items()):
            for queue in [queue for queue, (_, since_ms) in held.items() if now_ms - since_ms > LOCK_MS]:
                del held[queue]
                self._count -= 1
            if not held:
                del self._locks[group]
        return before - self._count

    def _made_room(self, now_ms: int) -> bool:
        if now_ms - self._swept_ms < SWEEP_MS:
            return False
        self._swept_ms = now_ms
        return self.expire(now_ms) > 0
