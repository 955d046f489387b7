"""A rate limit: how long to wait before the next messages may be sent. Pure: the caller has the clock, and sleeps.

pace = Pace(per_s=500)
pause_s = pace.take(100, now_s)      # 0.0 while the rate is kept, then as long as the messages before it need
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Allows `per_s` messages a second on average. What was not used in the past is not made up for: no burst follows a pause."""

    per_s: float
    _free_at_s: float | None = None  # when everything taken so far has had its time

    def __post_init__(self) -> None:
        assert self.per_s > 0, "the job checks its arguments"

    def take(self, count: int, now_s: float) -> float:
        """Take `count` messages, and return the seconds to wait before they may be sent."""
        free_at_s = now_s if self._free_at_s is None else max(self._free_at_s, now_s)
        self._free_at_s = free_at_s + count / self.per_s
        return free_at_s - now_s

    def batch(self, most: int) -> int:
        """Return how many messages to send at once: a tenth of a second's worth, so that a slow rate is even."""
        return max(1, min(most, int(self.per_s / 10)))
