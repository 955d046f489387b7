"""A clock that follows the real time and that a test can advance."""

from __future__ import annotations

import time
from datetime import timedelta


class Clock:
    """The broker's clock, in milliseconds since 1970. Clients use the real time."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock forward. `LocalBroker.advance` also wakes the broker's scheduler."""
        self.ahead_ms += by_ms


def duration_ms(duration: timedelta | float) -> int:
    """Convert a timedelta, or a number of seconds, to milliseconds. Raise ValueError if it is negative."""
    by_ms = round(duration.total_seconds() * 1000 if isinstance(duration, timedelta) else duration * 1000)
    if by_ms < 0:
        raise ValueError(f"A clock can only go forward, not back: {duration!r} is negative.")
    return by_ms
