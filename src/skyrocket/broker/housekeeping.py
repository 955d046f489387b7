"""Work that a broker does at intervals: time-outs of parked answers and waiting pulls, silent clients, expired files.

    add(name, every_ms, step)    call step(now_ms) every `every_ms`
    turn(now_ms)                 call the steps that are due

Intervals go by a clock that never jumps. A step that fails is called again at its next time, and does not stop the other steps.
Its failure is logged, but not at every attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)

TURN_MS: Final = 100
LOG_MS: Final = 60_000  # between two log lines about the same step

Step = Callable[[int], object]


@dataclass(slots=True)
class _Row:
    name: str
    every_ms: int
    step: Step
    next_ms: int
    failures: int = 0  # since the last log line
    logged_ms: int | None = None


class Housekeeping:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._rows: list[_Row] = []
        self._task: SupervisedTask | None = None

    def add(self, name: str, every_ms: int, step: Step) -> None:
        self._rows.append(_Row(name, every_ms, step, self._now_ms() + every_ms))

    def turn(self, now_ms: int) -> None:
        for row in self._rows:
            if now_ms >= row.next_ms:
                row.next_ms = now_ms + row.every_ms
                error = failure_of(row.step, now_ms)
                if error is not None:
                    self._report(row, error, now_ms)

    def _report(self, row: _Row, error: Exception, now_ms: int) -> None:
        row.failures += 1
        if row.logged_ms is None or now_ms - row.logged_ms >= LOG_MS:
            log.error("Housekeeping, '%s': failed %d times, and goes on.", row.name, row.failures, exc_info=error)
            row.logged_ms, row.failures = now_ms, 0

    # --- in the event loop

    def start(self) -> None:
        self._task = SupervisedTask("housekeeping", self._run)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(TURN_MS / 1000)
            self.turn(self._now_ms())
