"""Lines of progress, each with the time that has gone and the time that is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


class Progress:
    """Steps are planned in seconds. The time left is what is still planned, corrected by how long the steps so far took."""

    def __init__(self, planned_s: float, clock: Callable[[], float] = time.monotonic, out: TextIO = sys.stdout) -> None:
        self._planned_s, self._clock, self._out = planned_s, clock, out
        self._started_s, self._done_s = clock(), 0.0

    def __call__(self, text: str, planned_s: float = 0.0) -> None:
        self._done_s += planned_s
        left_s = self.left_s()
        print(f"[{_minutes(self.gone_s())} gone, {_minutes(left_s)} left] {text}", file=self._out, flush=True)

    def gone_s(self) -> float:
        return self._clock() - self._started_s

    def left_s(self) -> float:
        still_s = max(0.0, self._planned_s - self._done_s)
        pace = self.gone_s() / self._done_s if self._done_s > 60 else 1.0
        return still_s * min(3.0, max(0.5, pace))


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
