"""How late the event loop is: a lower bound for how long a request waited in the kernel before the loop read it.

One thread serves all connections. It asks the kernel which sockets are readable, and reads them one after another. An overdue
timer shows that the loop is still busy with sockets that were readable earlier, so whatever it reads now has waited at least as
long as the timer is overdue. The first read sets the timer. An idle loop sets none, and so is not woken up.

     read, timer set                 timer due, but the loop is busy               the timer rings: a round is over
     │                               │                                             │
     ├──── WATCH_MS ─────────────────┼──────────────── late ───────────────────────┤
     A's requests   B's requests     C's requests    …                Z's requests

A loop is also late when its process did not run: the machine had other work, or somebody stopped the process. So the CPU time of
the process tells how much of the delay was work of its own (`worked_ms`), and whoever judges a delay gets both figures.

The cost is one comparison for each read event, and one timer and two looks at the CPU clock every WATCH_MS.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

WATCH_MS: Final = 20

RecordRound = Callable[[int, int, int], None]  # gets late_ms, worked_ms and now_ms when a round is over


def process_cpu_ms() -> int:
    return time.process_time_ns() // 1_000_000


class Lateness:
    def __init__(self, now_ms: Callable[[], int], record_round: RecordRound, cpu_ms: Callable[[], int] = process_cpu_ms) -> None:
        self._now_ms = now_ms
        self._record_round = record_round
        self._cpu_ms = cpu_ms
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self._due_cpu_ms = 0  # what the CPU clock shows when the timer is due, if the process works all the time

    def late_ms(self, now_ms: int) -> int:
        """Return how late a request is that is handled at `now_ms`."""
        if self._timer is None:
            self._due_ms = now_ms + WATCH_MS
            self._due_cpu_ms = self._cpu_ms() + WATCH_MS
            self._timer = asyncio.get_running_loop().call_later(WATCH_MS / 1000, self._on_timer)
        return now_ms - self._due_ms if now_ms > self._due_ms else 0

    def worked_ms(self, late_ms: int) -> int:
        """Return how much of a delay was work of this process."""
        return max(0, min(late_ms, self._cpu_ms() - self._due_cpu_ms))

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        late_ms = max(0, now_ms - self._due_ms)
        self._record_round(late_ms, self.worked_ms(late_ms), now_ms)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
