"""What the broker does when its time comes: each part says when it wants to be asked again, and is asked then.

    check(now_ms) -> when next, by the same clock; None: only when woken

A part that fails is asked again after a second, and stops no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from skyrocket.store.errors import StoreError

log = logging.getLogger(__name__)

Check = Callable[[int], int | None]

SLEEP_MS_MAX = 1_000  # the clock may be set, or be a test's
AFTER_FAILURE_MS = 1_000


class Clockwork:
    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._next_ms: dict[Check, int | None] = {}
        self._last_ms = 0
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, check: Check) -> None:
        self._next_ms[check] = 0

    def wake(self, check: Check) -> None:
        """There is something earlier than the part knew of when it was asked."""
        self._next_ms[check] = 0
        self._woken.set()

    def clock_changed(self) -> None:
        """For clocks that jump."""
        self._woken.set()

    def turn(self) -> int:
        """Ask whoever is due. How long nobody will be, in ms."""
        now_ms = self._wall_ms()
        if now_ms < self._last_ms:  # the clock was set back: what parts said by it before means something else now
            self._next_ms = dict.fromkeys(self._next_ms, 0)
        self._last_ms = now_ms
        for check, next_ms in list(self._next_ms.items()):
            if next_ms is not None and next_ms <= now_ms:
                self._next_ms[check] = self._asked(check, now_ms)
        waits = [next_ms - now_ms for next_ms in self._next_ms.values() if next_ms is not None]
        return max(1, min([SLEEP_MS_MAX, *waits]))

    def _asked(self, check: Check, now_ms: int) -> int | None:
        self._next_ms[check] = now_ms + AFTER_FAILURE_MS  # unless it says otherwise
        try:
            said = check(now_ms)
        except StoreError as error:
            log.error("What was due could not be done, and is tried again in a second: %s", error)
            return now_ms + AFTER_FAILURE_MS
        return 0 if self._next_ms[check] == 0 else said

    # --- in the event loop

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """By an error that nobody thought of: it is told, and time goes on for the others."""
        if not task.cancelled() and not self._closed:
            log.error("A part of the broker failed when its time came.", exc_info=task.exception())
            self.start()

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            wait_ms = self.turn()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):  # wait_for forgets a cancellation that comes with a wake
                    await self._woken.wait()
            self._woken.clear()
