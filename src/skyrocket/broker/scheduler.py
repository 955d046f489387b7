"""The scheduler: calls each registered check when its time comes.

    check(now_ms) -> when to call next, by the same clock; None: only when woken

A check that fails is called again after a second, and does not affect the others. One that needs the disk, for bytes that are
not in memory or for new files (WaitsForDiskError), is called again when a thread has done that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from skyrocket.store.cold_reads import WaitsForDiskError
from skyrocket.store.errors import StoreError
from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)

Check = Callable[[int], int | None]

SLEEP_MS_MAX = 1_000  # the wall clock may jump, and tests set it
AFTER_FAILURE_MS = 1_000


class Scheduler:
    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._next_ms: dict[Check, int | None] = {}
        self._last_ms = 0
        self._fetching: dict[Check, asyncio.Future[None]] = {}  # checks that wait for the disk
        self._woken = asyncio.Event()
        self._task: SupervisedTask | None = None

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
            if next_ms is not None and next_ms <= now_ms and check not in self._fetching:
                self._call(check, now_ms)
        waiting = [next_ms for check, next_ms in self._next_ms.items() if next_ms is not None and check not in self._fetching]
        waits = [next_ms - now_ms for next_ms in waiting]
        return max(1, min([SLEEP_MS_MAX, *waits]))

    def _call(self, check: Check, now_ms: int) -> None:
        self._next_ms[check] = now_ms + AFTER_FAILURE_MS  # unless the check returns another time
        error = failure_of(self._ask, check, now_ms)
        if isinstance(error, WaitsForDiskError):
            self._fetch(check, error)
        elif error is not None:
            details = None if isinstance(error, StoreError) else error
            log.error("A scheduled task failed and runs again in a second: %s", error, exc_info=details)
            self._next_ms[check] = now_ms + AFTER_FAILURE_MS

    def _fetch(self, check: Check, missing: WaitsForDiskError) -> None:
        """Do in a thread what a check needs, and call the check again then."""
        reading = asyncio.get_running_loop().run_in_executor(None, missing.fetch)
        self._fetching[check] = reading
        reading.add_done_callback(lambda _: self._finish_fetching(check))

    def _finish_fetching(self, check: Check) -> None:
        del self._fetching[check]
        self.wake(check)

    def _ask(self, check: Check, now_ms: int) -> None:
        next_ms = check(now_ms)
        if self._next_ms[check] != 0:  # it was not woken meanwhile
            self._next_ms[check] = next_ms

    # --- in the event loop

    def start(self) -> None:
        self._task = SupervisedTask("scheduler", self._run)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)  # threads may still work on files of a check

    async def _run(self) -> None:
        while True:
            wait_ms = self.turn()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):  # wait_for can lose a cancellation that arrives with a wake
                    await self._woken.wait()
            self._woken.clear()
