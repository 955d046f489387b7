"""How late an event loop is: how long what it reads now has waited at least, while others had their turn.

One thread serves all connections: it asks the kernel which have something to read, and reads one after the other. A timer that
should have rung by now, and has not, tells that the loop is still busy with what it found before; so what it reads meanwhile
lay there since. The timer is set by the first read and not by the clock: a loop that does nothing is not woken.

     read, timer set                 rings ─ but nobody is free to hear it
     │                               │
     ├──── WATCH_MS ─────────────────┼──────────────── late ──────────┤
     A's requests   B's requests     C's requests    …                Z's requests

What it costs: a comparison for each read event, a timer every WATCH_MS.
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
        """At a read event; `now_ms` is its time."""
        if self._timer is None:
            self._due_ms = now_ms + WATCH_MS
            self._timer = asyncio.get_running_loop().call_later(WATCH_MS / 1000, self._rang)
        return now_ms - self._due_ms if now_ms > self._due_ms else 0

    def _rang(self) -> None:
        self._timer = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
