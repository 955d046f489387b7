"""Back-pressure: how many requests a session has under way at a broker that answered SYSTEM_BUSY.

A broker answers SYSTEM_BUSY when requests come faster than it serves them. If every sender only tried again, they would keep the
broker busy with refusals until their deadlines passed. So each refusal halves a window, the number of requests under way at the
broker, and pauses it; each success widens it a little. Requests beyond the window wait here; the first deadline comes first.

    refused: the window halves, once for all requests that were under way and down to 4, and no request leaves for 20 ms; this
             pause doubles with each further refusal, up to 160 ms, until the next success
    success: the window grows by one request for each window of successes; by a quarter after 2 s without a refusal
    removed: after 10 s without a refusal, or when the window has 256 requests

Without a busy broker there is no window, and a send checks one attribute.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
from collections.abc import Callable
from typing import Final

from skyrocket.chance import CHANCE

FIRST_WINDOW: Final = 16
WINDOW_MIN: Final = 4  # fewer would leave a broker idle whose answers are slow because its machine is busy
WINDOW_MAX: Final = 256
FIRST_PAUSE_MS: Final = 20
PAUSE_MS_MAX: Final = 160
QUIET_MS: Final = 2_000  # without a refusal: the window grows faster
FORGET_MS: Final = 10_000  # without a refusal: the window is removed
_BROKERS_MAX = 1_000  # with a window; beyond, the oldest is removed


class Turn:
    """The permission to send one request to a busy broker. Give it back with `end`."""

    __slots__ = ("_window", "generation")

    def __init__(self, window: _Window, generation: int) -> None:
        self._window: _Window | None = window
        self.generation = generation

    def end(self, now_ms: int, *, is_success: bool) -> None:
        """Give the turn back; any further call does nothing."""
        window, self._window = self._window, None
        if window is not None:
            window.release(now_ms, is_success=is_success)


class _Window:
    """The requests under way at one broker, and those that wait for their turn."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self.limit = float(FIRST_WINDOW)
        self.under_way = 0
        self.generation = 0  # grows when the window shrinks: later refusals of earlier requests do not shrink it again
        self.refused_ms = 0
        self.pause_until_ms = 0
        self._refusals = 0  # since the last success
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap: deadline, number, waiter
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    def try_acquire(self, now_ms: int) -> bool:
        while self._waiting and self._waiting[0][2].done():  # it gave up
            heapq.heappop(self._waiting)
        if self._waiting or not self._has_room(now_ms):
            return False
        self.under_way += 1
        return True

    def _has_room(self, now_ms: int) -> bool:
        return now_ms >= self.pause_until_ms and self.under_way < int(self.limit)

    def wait(self, deadline_ms: int, now_ms: int) -> asyncio.Future[None]:
        """Return a future that is done when it is the caller's turn."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (deadline_ms, next(self._numbers), waiter))
        self._set_timer(now_ms)
        return waiter

    def refuse(self, generation: int, now_ms: int) -> None:
        """Note a refusal of a request of this generation."""
        self.refused_ms = now_ms
        if generation == self.generation:
            self.generation += 1
            self.limit = max(float(WINDOW_MIN), self.limit / 2)
            pause_ms = min(PAUSE_MS_MAX, FIRST_PAUSE_MS << min(self._refusals, 10))
            self._refusals += 1
            self.pause_until_ms = now_ms + int(pause_ms * (0.5 + self._draw()))  # clients of one broker go on at different times

    def release(self, now_ms: int, *, is_success: bool) -> None:
        self.under_way -= 1
        if is_success:
            self._refusals = 0
            self.limit += 0.25 if now_ms - self.refused_ms > QUIET_MS else 1 / self.limit
        self._wake(now_ms)

    def _wake(self, now_ms: int) -> None:
        while self._waiting and (self._waiting[0][2].done() or self._has_room(now_ms)):
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                self.under_way += 1
                waiter.set_result(None)
        self._set_timer(now_ms)

    def _set_timer(self, now_ms: int) -> None:
        """Have the waiting requests looked at when the pause is over."""
        if self._timer is None and self._waiting and now_ms < self.pause_until_ms:
            until_ms = self.pause_until_ms
            delay_s = (until_ms - now_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer, until_ms)

    def _on_timer(self, now_ms: int) -> None:
        self._timer = None
        self._wake(now_ms)

    def wake_all(self) -> None:
        """Let every waiting request go: the window is removed."""
        self.limit, self.pause_until_ms = float(sys.maxsize), 0
        self._wake(0)


class BackPressure:
    """The windows of the brokers that are busy."""

    def __init__(self, now_ms: Callable[[], int], draw: Callable[[], float] = CHANCE.random) -> None:
        """`draw` returns random numbers from 0 to 1."""
        self._now_ms = now_ms
        self._draw = draw
        self._windows: dict[str, _Window] = {}
        self.is_active = False  # some broker has a window

    async def take_turn(self, address: str, deadline_ms: int) -> Turn | None:
        """Wait until one more request may leave for a broker; None: it is not busy. Raise TimeoutError at the deadline."""
        window, now_ms = self._windows.get(address), self._now_ms()
        if window is None:
            return None
        if window.limit >= WINDOW_MAX or now_ms - window.refused_ms > FORGET_MS:
            self._remove(address)
            return None
        if not window.try_acquire(now_ms):
            waiter = window.wait(deadline_ms, now_ms)
            try:
                async with asyncio.timeout(max(0, deadline_ms - now_ms) / 1000):
                    await waiter
            except BaseException:
                if waiter.done() and not waiter.cancelled():  # the turn came in the same moment
                    window.release(self._now_ms(), is_success=False)
                raise
        return Turn(window, window.generation)

    def refuse(self, address: str, turn: Turn | None) -> None:
        """Note that a broker answered SYSTEM_BUSY. Without a turn the request left before the broker was known to be busy."""
        now_ms, window = self._now_ms(), self._windows.get(address)
        if window is None:
            window = self._windows[address] = _Window(self._draw)
            window.refuse(0, now_ms)
            window.limit = float(FIRST_WINDOW)
            self.is_active = True
            if len(self._windows) > _BROKERS_MAX:
                self._remove(next(iter(self._windows)))
        else:
            window.refuse(-1 if turn is None else turn.generation, now_ms)

    def close(self) -> None:
        for address in list(self._windows):
            self._remove(address)

    def _remove(self, address: str) -> None:
        self._windows.pop(address).wake_all()
        self.is_active = bool(self._windows)
