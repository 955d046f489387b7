"""The in-flight limit: how many messages, and how many bytes, a session sends before the first of them is acknowledged.

A sender that finds the limit reached waits until acknowledgements make room. Senders proceed in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from skyrocket.client.errors import ClientClosedError
from skyrocket.compiled import twin


class _InFlightCount:
    """How much is in flight, how much may be, and the senders that wait for room."""

    __slots__ = ("bytes_max", "count", "count_max", "size_bytes", "waiting")

    def __init__(self, count_max: int, bytes_max: int, waiting: deque[tuple[asyncio.Future[None], int]]) -> None:
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.count = self.size_bytes = 0
        self.waiting = waiting

    def try_acquire(self, size_bytes: int) -> bool:
        """Take room for one message and return True; return False when there is no room or an earlier sender waits.

        A message larger than the byte limit still passes when nothing else is in flight.
        """
        total_bytes = self.size_bytes + size_bytes
        if self.waiting or self.count >= self.count_max or (total_bytes > self.bytes_max and self.count):
            return False
        self.count += 1
        self.size_bytes = total_bytes
        return True

    def add(self, count: int, size_bytes: int) -> None:
        """Count messages that have `size_bytes` together; negative numbers give their room back."""
        self.count += count
        self.size_bytes += size_bytes


if TYPE_CHECKING:
    InFlightCount = _InFlightCount
else:
    InFlightCount = twin("outgoing", _InFlightCount)


class InFlightLimit(InFlightCount):
    """Counts messages and their bytes. `acquire` returns at once while there is room, which is nearly always."""

    __slots__ = ("_closed",)

    def __init__(self, count_max: int, bytes_max: int) -> None:
        super().__init__(count_max, bytes_max, deque())
        self._closed = False

    async def acquire(self, size_bytes: int) -> None:
        """Take room for one message; wait until there is some. Raise ClientClosedError when the session closes meanwhile."""
        if self.try_acquire(size_bytes):
            return
        if self._closed:
            raise ClientClosedError("The client is closed.")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((waiter, size_bytes))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(size_bytes)  # room was granted in the same turn of the loop as the cancellation
            else:
                self._wake_waiting()
            raise

    def release(self, size_bytes: int, count: int = 1) -> None:
        """Give back the room of `count` messages that have `size_bytes` together."""
        self.add(-count, -size_bytes)
        if self.waiting:
            self._wake_waiting()

    def close(self) -> None:
        """Fail every waiting sender with ClientClosedError."""
        self._closed = True
        while self.waiting:
            waiter, _ = self.waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ClientClosedError("The client is closed."))

    def _wake_waiting(self) -> None:
        while self.waiting:
            waiter, size_bytes = self.waiting[0]
            if waiter.done():
                self.waiting.popleft()
            elif self.count < self.count_max and (self.size_bytes + size_bytes <= self.bytes_max or not self.count):
                self.waiting.popleft()
                self.add(1, size_bytes)
                waiter.set_result(None)
            else:
                return
