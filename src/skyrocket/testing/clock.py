"""A clock that goes as all clocks do, and that a test can put forward."""

from __future__ import annotations

import time
from datetime import timedelta


class Clock:
    """In milliseconds since 1970, as the broker reads it. Clients keep the real time."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def put_forward(self, by_ms: int) -> None:
        self.ahead_ms += by_ms


def duration_ms(duration: timedelta | float) -> int:
    """Seconds where it is a number. Time does not go back."""
    by_ms = round(duration.total_seconds() * 1000 if isinstance(duration, timedelta) else duration * 1000)
    if by_ms < 0:
        raise ValueError(f"A clock is put forward, not back: {duration!r}.")
    return by_ms
