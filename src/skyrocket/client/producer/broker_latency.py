"""Brokers that are slow or fail are left alone for a while: the slower, the longer. Pure.

    answered(broker, latency, now)    it took that long
    failed(broker, now)               it did not answer, or said no
    is_available(broker, now)         whether to choose it

It only helps to choose: where no broker is available, the message goes to one that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.client.errors import ConfigurationError


class Step(NamedTuple):
    latency_ms: int  # from here on
    pause_ms: int


STEPS: Final = (
    Step(50, 0),
    Step(100, 0),
    Step(550, 30_000),
    Step(1_000, 60_000),
    Step(2_000, 120_000),
    Step(3_000, 180_000),
    Step(15_000, 600_000),
)
"""The table that Apache's producers had for years. A broker that needs 15 s is left alone for ten minutes."""

SHORT_STEPS: Final = (
    Step(50, 0),
    Step(100, 0),
    Step(550, 2_000),
    Step(1_800, 5_000),
    Step(3_000, 6_000),
    Step(5_000, 10_000),
    Step(15_000, 30_000),
)
"""The table of Apache's client 5.5.0."""

FAILURE_MS: Final = 10_000  # what a failure counts as
_BROKERS_MAX = 10_000


class LatencyTable:
    def __init__(self, steps: Sequence[tuple[int, int]] = STEPS) -> None:
        """Each step: from which latency on, and for how long. ConfigurationError where that cannot be meant."""
        latencies = [latency_ms for latency_ms, _ in steps]
        if not steps or min(map(min, steps)) < 0 or any(map(int.__ge__, latencies, latencies[1:])):
            raise ConfigurationError(f"Steps of latencies rise, and have no negative times, unlike {list(map(tuple, steps))}.")
        self._steps = tuple(Step(*step) for step in reversed(steps))
        self._paused: dict[str, int] = {}  # broker -> until when, in ms

    def answered(self, broker: str, latency_ms: int, now_ms: int) -> None:
        pause_ms = self.pause_ms(latency_ms)
        if pause_ms and now_ms + pause_ms > self._paused.get(broker, 0):
            self._paused.pop(broker, None)
            self._paused[broker] = now_ms + pause_ms
            if len(self._paused) > _BROKERS_MAX:
                del self._paused[next(iter(self._paused))]

    def failed(self, broker: str, now_ms: int) -> None:
        self.answered(broker, FAILURE_MS, now_ms)

    def is_available(self, broker: str, now_ms: int) -> bool:
        return not self._paused or now_ms >= self._paused.get(broker, 0)

    def pause_ms(self, latency_ms: int) -> int:
        return next((step.pause_ms for step in self._steps if latency_ms >= step.latency_ms), 0)
