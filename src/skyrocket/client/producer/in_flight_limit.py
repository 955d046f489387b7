"""What is under way, bounded: a sender who finds the gate full waits until something comes back."""

from __future__ import annotations

import asyncio
from collections import deque

from skyrocket.client.errors import ClientClosedError


class Gate:
    """Counts messages and their bytes. `enter` does not wait where there is room, which is nearly always."""

    __slots__ = ("_bytes", "_bytes_max", "_closed", "_count", "_count_max", "_waiting")

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._count = self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._closed = False

    def try_enter(self, size_bytes: int) -> bool:
        """Whether there is room, and nobody who came before waits for it. The largest message finds room in an empty gate."""
        total_bytes = self._bytes + size_bytes
        if self._waiting or self._count >= self._count_max or (total_bytes > self._bytes_max and self._count):
            return False
        self._count += 1
        self._bytes = total_bytes
        return True

    async def enter(self, size_bytes: int) -> None:
        if self.try_enter(size_bytes):
            return
        if self._closed:
            raise ClientClosedError("The client is closed.")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((waiter, size_bytes))
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.leave(size_bytes)  # it was let in at the same moment
            else:
                self._let_in()
            raise

    def leave(self, size_bytes: int, count: int = 1) -> None:
        self._count -= count
        self._bytes -= size_bytes
        if self._waiting:
            self._let_in()

    def close(self) -> None:
        self._closed = True
        while self._waiting:
            waiter, _ = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ClientClosedError("The client is closed."))

    def _let_in(self) -> None:
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
