"""Overload: the broker has had more work than it does for some time, so requests wait for it and not for a pause of its machine.

The event loop works in rounds, and reports how late each one ended (`net/lateness.py`). Rounds over the limit that follow one
another make a streak. The first long round only starts it, so one large read, one long query or one pause is no overload.

    round      over the limit   over      over       …    over       within the limit, or nothing to do for WATCH_MS
               ├────────────────┼─────────┼───────────────┼──────────┤
    streak                      starts    │               lasts      ends: the backlog has drained
                                ├─ lasting_ms ────────────┤

There are two streaks. A delay that the broker's own work filled is an overload after a second. Any other delay (a disk that
blocks every write, a machine that has no CPU for the broker) is one after ten seconds, when it is more than a pause.
"""

from __future__ import annotations

from typing import Final

from skyrocket.net.lateness import WATCH_MS

WORK_LASTS_MS: Final = 1_000
DELAY_LASTS_MS: Final = 10_000


class Streak:
    """Rounds over a limit that follow one another."""

    def __init__(self, lasting_ms: int) -> None:
        self._lasting_ms = lasting_ms
        self._since_ms: int | None = None  # when the first of these rounds ended
        self._until_ms = 0  # when the last of them ended

    def record(self, late_ms: int, now_ms: int, *, is_over: bool) -> None:
        """Record a round that ended at `now_ms`, and whether it was over the limit."""
        if not is_over:
            self._since_ms = None
        elif self._since_ms is None or self._has_drained(late_ms, now_ms):
            self._since_ms = now_ms
        self._until_ms = now_ms

    def lasts(self, late_ms: int, now_ms: int) -> bool:
        """Whether the streak is an overload at `now_ms`, in a round that is late by `late_ms` so far."""
        if self._since_ms is None or now_ms - self._since_ms < self._lasting_ms:
            return False
        return not self._has_drained(late_ms, now_ms)

    def _has_drained(self, late_ms: int, now_ms: int) -> bool:
        """Whether the loop had nothing to do between the last round and the one that is late by `late_ms` now."""
        began_ms = now_ms - late_ms - WATCH_MS
        return began_ms - self._until_ms > WATCH_MS


class Overload:
    def __init__(self) -> None:
        self._work = Streak(WORK_LASTS_MS)
        self._delay = Streak(DELAY_LASTS_MS)

    def record_round(self, late_ms: int, worked_ms: int, limit_ms: int, now_ms: int) -> None:
        """Record a round: how late it ended, and how much of that was the broker's own work."""
        self._work.record(late_ms, now_ms, is_over=worked_ms >= limit_ms)
        self._delay.record(late_ms, now_ms, is_over=late_ms >= limit_ms)

    def lasts(self, late_ms: int, now_ms: int) -> bool:
        """Whether there is an overload of either kind, in a round that is late by `late_ms` so far."""
        return self._work.lasts(late_ms, now_ms) or self._delay.lasts(late_ms, now_ms)

    def judged_ms(self, late_ms: int, worked_ms: int, now_ms: int) -> int:
        """Return the part of a request's delay that is an overload's; 0 when there is none."""
        if self._delay.lasts(late_ms, now_ms):
            return late_ms
        return worked_ms if self._work.lasts(late_ms, now_ms) else 0
