"""Requests that wait for their response.

    add(opaque, deadline, waiter)     a request was sent
    pop(opaque)                       its response arrived: remove and return the waiter
    pop_expired(now_ms)               remove and return the waiters whose deadline has passed
    clear()                           the connection ended: remove and return all waiters

`next_opaque` numbers the requests. A number is unique on its connection while its request waits.
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

W = TypeVar("W")

_OPAQUE_MAX = 2**30 - 1  # callers may set the 31st bit: a fast-path handler recognises its responses by it
_STALE_MAX = 1024  # numbers of finished requests that the heap may keep


class PendingRequests(Generic[W]):
    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[int, W] = {}
        self._deadlines: list[tuple[int, list[int]]] = []  # heap of (deadline, numbers); finished requests leave it lazily
        self._last_ms = -1  # the newest deadline: requests of one moment share its heap entry
        self._last: list[int] = []
        self._in_heap = 0  # numbers in the heap, without those in `_last`
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def next_opaque(self) -> int:
        self._next = self._next % _OPAQUE_MAX + 1
        return self._next

    def add(self, opaque: int, deadline_ms: int, waiter: W) -> bool:
        """Add a request. Return False when too many wait already."""
        if len(self._waiting) >= self._most:
            return False
        self._waiting[opaque] = waiter
        if deadline_ms == self._last_ms and len(self._last) < _STALE_MAX:
            self._last.append(opaque)
        else:
            self._push(opaque, deadline_ms)
        return True

    def _push(self, opaque: int, deadline_ms: int) -> None:
        self._in_heap += len(self._last)
        if self._in_heap > 2 * len(self._waiting) + _STALE_MAX:
            left = [(ms, [each for each in numbers if each in self._waiting]) for ms, numbers in self._deadlines]
            self._deadlines = [(ms, numbers) for ms, numbers in left if numbers]
            heapq.heapify(self._deadlines)
            self._in_heap = sum(len(numbers) for _, numbers in self._deadlines)
        self._last_ms, self._last = deadline_ms, [opaque]
        heapq.heappush(self._deadlines, (deadline_ms, self._last))

    def pop(self, opaque: int) -> W | None:
        """Remove and return the waiter for a response, or None when no request waits for it."""
        return self._waiting.pop(opaque, None)

    def pop_expired(self, now_ms: int) -> list[W]:
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            for opaque in self._pop_deadline():
                waiter = self._waiting.pop(opaque, None)
                if waiter is not None:
                    late.append(waiter)
        return late

    def next_deadline_ms(self) -> int | None:
        """Return the next deadline of a request that still waits."""
        while self._deadlines and self._waiting.keys().isdisjoint(self._deadlines[0][1]):
            self._pop_deadline()
        return self._deadlines[0][0] if self._deadlines else None

    def _pop_deadline(self) -> list[int]:
        _, numbers = heapq.heappop(self._deadlines)
        if numbers is self._last:
            self._forget_last()
        else:
            self._in_heap -= len(numbers)
        return numbers

    def clear(self) -> list[W]:
        left = list(self._waiting.values())
        self._waiting.clear()
        self._deadlines.clear()
        self._in_heap = 0
        self._forget_last()
        return left

    def _forget_last(self) -> None:
        self._last_ms, self._last = -1, []
