"""How late the event loop is: a lower bound for how long a request waited in the kernel before the loop read it.

One thread serves all connections. It asks the kernel which sockets are readable, and reads them one after another. An overdue
timer shows that the loop is still busy with sockets that were readable earlier, so whatever it reads now has waited at least as
long as the timer is overdue. The first read sets the timer. An idle loop sets none, and so is not woken up.

     read, timer set                 timer due, but the loop is busy
     │                               │
     ├──── WATCH_MS ─────────────────┼──────────────── late ──────────┤
     A's requests   B's requests     C's requests    …                Z's requests

The cost is one comparison for each read event and one timer every WATCH_MS.
"""

from __future__ import annotations

import asyncio
from typing import Final

WATCH_MS: Final = 20


class Lateness:
    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def late_ms(self, now_ms: int) -> int:
        """Return how late a read event at `now_ms` is."""
        if self._timer is None:
            self._due_ms = now_ms + WATCH_MS
            self._timer = asyncio.get_running_loop().call_later(WATCH_MS / 1000, self._on_timer)
        return now_ms - self._due_ms if now_ms > self._due_ms else 0

    def _on_timer(self) -> None:
        self._timer = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
