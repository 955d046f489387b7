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

_OPAQUE_MAX = 2**30 - 1  # the 31st bit is free for who asks: an express handler may know its answers by it
_TIDY = 1024  # numbers that may lie about beside those that wait


class PendingRequests(Generic[W]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[int, W] = {}
        self._deadlines: list[tuple[int, list[int]]] = []  # heap of (deadline, whose it is); answered ones leave it lazily
        self._last_ms = -1  # the deadline that came last: requests of one moment share it, and so its place in the heap
        self._last: list[int] = []
        self._noted = 0  # in the heap, `_last` not counted
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
        if deadline_ms == self._last_ms and len(self._last) < _TIDY:
            self._last.append(opaque)
        else:
            self._note(opaque, deadline_ms)
        return True

    def _note(self, opaque: int, deadline_ms: int) -> None:
        self._noted += len(self._last)
        if self._noted > 2 * len(self._waiting) + _TIDY:
            left = [(ms, [each for each in numbers if each in self._waiting]) for ms, numbers in self._deadlines]
            self._deadlines = [(ms, numbers) for ms, numbers in left if numbers]
            heapq.heapify(self._deadlines)
            self._noted = sum(len(numbers) for _, numbers in self._deadlines)
        self._last_ms, self._last = deadline_ms, [opaque]
        heapq.heappush(self._deadlines, (deadline_ms, self._last))

    def answered(self, opaque: int) -> W | None:
        """Who waits for this response; None when nobody does (any more)."""
        return self._waiting.pop(opaque, None)

    def expired(self, now_ms: int) -> list[W]:
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            for opaque in self._pop():
                waiter = self._waiting.pop(opaque, None)
                if waiter is not None:
                    late.append(waiter)
        return late

    def next_deadline_ms(self) -> int | None:
        """When `expired` may have something to tell next."""
        while self._deadlines and self._waiting.keys().isdisjoint(self._deadlines[0][1]):
            self._pop()
        return self._deadlines[0][0] if self._deadlines else None

    def _pop(self) -> list[int]:
        _, numbers = heapq.heappop(self._deadlines)
        if numbers is self._last:
            self._forget_last()
        else:
            self._noted -= len(numbers)
        return numbers

    def clear(self) -> list[W]:
        left = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        self._noted = 0
        self._forget_last()
        return left

    def _forget_last(self) -> None:
        self._last_ms, self._last = -1, []
