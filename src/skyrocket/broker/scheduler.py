"""The scheduler: calls each registered check when its time comes.

    check(now_ms) -> when to call next, by the same clock; None: only when woken

A check that fails is called again after a second, and does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from skyrocket.store.errors import StoreError

log = logging.getLogger(__name__)

Check = Callable[[int], int | None]

SLEEP_MS_MAX = 1_000  # the wall clock may jump, and tests set it
AFTER_FAILURE_MS = 1_000


class Scheduler:
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
        """Call a check soon: something is due earlier than it knew."""
        self._next_ms[check] = 0
        self._woken.set()

    def clock_changed(self) -> None:
        """Take note that the clock jumped."""
        self._woken.set()

    def turn(self) -> int:
        """Call the checks that are due. Return how long to sleep, in ms."""
        now_ms = self._wall_ms()
        if now_ms < self._last_ms:  # the clock was set back, so earlier times are meaningless
            self._next_ms = dict.fromkeys(self._next_ms, 0)
        self._last_ms = now_ms
        for check, next_ms in list(self._next_ms.items()):
            if next_ms is not None and next_ms <= now_ms:
                self._next_ms[check] = self._call(check, now_ms)
        waits = [next_ms - now_ms for next_ms in self._next_ms.values() if next_ms is not None]
        return max(1, min([SLEEP_MS_MAX, *waits]))

    def _call(self, check: Check, now_ms: int) -> int | None:
        self._next_ms[check] = now_ms + AFTER_FAILURE_MS  # unless the check returns another time
        try:
            next_ms = check(now_ms)
        except StoreError as error:
            log.error("A scheduled task failed and runs again in a second: %s", error)
            return now_ms + AFTER_FAILURE_MS
        return 0 if self._next_ms[check] == 0 else next_ms

    # --- in the event loop

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._restart)

    def _restart(self, task: asyncio.Task[None]) -> None:
        """Log an unexpected error and start again, so that the other checks go on."""
        if not task.cancelled() and not self._closed:
            log.error("A scheduled task failed unexpectedly.", exc_info=task.exception())
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
                async with asyncio.timeout(wait_ms / 1000):  # wait_for can lose a cancellation that arrives with a wake
                    await self._woken.wait()
            self._woken.clear()
