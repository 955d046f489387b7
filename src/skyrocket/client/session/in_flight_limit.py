"""The in-flight limit: how many messages, and how many bytes, a session sends before the first of them is acknowledged.

A sender that finds the limit reached waits until acknowledgements make room. Senders proceed in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections import deque

from skyrocket.client.errors import ClientClosedError


class InFlightLimit:
    """Counts messages and their bytes. `acquire` returns at once while there is room, which is nearly always."""

    __slots__ = ("_bytes", "_bytes_max", "_closed", "_count", "_count_max", "_waiting")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._closed = False

    def try_acquire(self, size_bytes: int) -> bool:
        """Take room for one message and return True; return False when there is no room or an earlier sender waits.

        A message larger than the byte limit still passes when nothing else is in flight.
        """
        total_bytes = self._bytes + size_bytes
        if self._waiting or self._count >= self._count_max or (total_bytes > self._bytes_max and self._count):
            return False
        self._count += 1
        self._bytes = total_bytes
        return True

    async def acquire(self, size_bytes: int) -> None:
        """Take room for one message; wait until there is some. Raise ClientClosedError when the session closes meanwhile."""
        if self.try_acquire(size_bytes):
            return
        if self._closed:
            raise ClientClosedError("The client is closed.")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiter, size_bytes))
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
        self._count -= count
        self._bytes -= size_bytes
        if self._waiting:
            self._wake_waiting()

    def close(self) -> None:
        """Fail every waiting sender with ClientClosedError."""
        self._closed = True
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ClientClosedError("The client is closed."))

    def _wake_waiting(self) -> None:
        while self._waiting:
            waiter, size_bytes = self._waiting[0]
            if waiter.done():
                self._waiting.popleft()
            elif self._count < self._count_max and (self._bytes + size_bytes <= self._bytes_max or not self._count):
                self._waiting.popleft()
                self._count += 1
                self._bytes += size_bytes
                waiter.set_result(None)
            else:
                return
