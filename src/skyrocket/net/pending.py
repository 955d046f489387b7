"""Requests that wait for their response.

    add(opaque, deadline, waiter)     a request went out
    answered(opaque)                  its response came: who waits for it?
    expired(now_ms)                   time has passed: who has waited long enough?
    clear()                           the connection is gone: who waited?

Numbers are taken by whoever asks; they are unique on one connection while they wait.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

W = TypeVar("W")

_OPAQUE_MAX = 2**31 - 1


class PendingRequests(Generic[W]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[int, W] = {}
        self._deadlines: list[tuple[int, int]] = []  # heap of (deadline, opaque); answered ones leave it lazily
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_opaque(self) -> int:
        self._next = self._next % _OPAQUE_MAX + 1
        return self._next

    def add(self, opaque: int, deadline_ms: int, waiter: W) -> bool:
        """False when too many wait already."""
        if len(self._waiting) >= self._most:
            return False
        self._waiting[opaque] = waiter
        heapq.heappush(self._deadlines, (deadline_ms, opaque))
        if len(self._deadlines) > 2 * len(self._waiting) + 1024:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
            heapq.heapify(self._deadlines)
        return True

    def answered(self, opaque: int) -> W | None:
        """Who waits for this response; None when nobody does (any more)."""
        return self._waiting.pop(opaque, None)

    def expired(self, now_ms: int) -> list[W]:
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            waiter = self._waiting.pop(heapq.heappop(self._deadlines)[1], None)
            if waiter is not None:
                late.append(waiter)
        return late

    def next_deadline_ms(self) -> int | None:
        """When `expired` may have something to tell next."""
        while self._deadlines and self._deadlines[0][1] not in self._waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def clear(self) -> list[W]:
        left = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        return left
