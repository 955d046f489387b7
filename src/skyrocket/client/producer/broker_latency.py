"""Latency avoidance: a producer skips brokers that are slow or fail, the longer the slower they are. Pure.

    record_latency(broker, latency, now)    the broker responded after this time
    record_failure(broker, now)             the broker did not respond, or refused
    is_available(broker, now)               whether to choose the broker

The table only guides the choice: when no broker is available, messages go to unavailable ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.client.errors import ConfigurationError


class LatencyStep(NamedTuple):
    """A latency, and how long a broker that shows it is skipped."""

    latency_ms: int  # this latency or more, up to the next step
    pause_ms: int


STEPS: Final = (
    LatencyStep(50, 0),
    LatencyStep(100, 0),
    LatencyStep(550, 30_000),
    LatencyStep(1_000, 60_000),
    LatencyStep(2_000, 120_000),
    LatencyStep(3_000, 180_000),
    LatencyStep(15_000, 600_000),
)
"""The table of Apache's producers before 5.x. A broker that needs 15 s is skipped for ten minutes."""

SHORT_STEPS: Final = (
    LatencyStep(50, 0),
    LatencyStep(100, 0),
    LatencyStep(550, 2_000),
    LatencyStep(1_800, 5_000),
    LatencyStep(3_000, 6_000),
    LatencyStep(5_000, 10_000),
    LatencyStep(15_000, 30_000),
)
"""The table of Apache's client 5.5.0."""

FAILURE_MS: Final = 10_000  # a failure counts as this latency
_BROKERS_MAX = 10_000


class LatencyTable:
    """Until when each slow broker is skipped."""

    def __init__(self, steps: Sequence[tuple[int, int]] = STEPS) -> None:
        """`steps` are (latency_ms, pause_ms) pairs in rising order of latency. Raise ConfigurationError when they are not."""
        latencies = [latency_ms for latency_ms, _ in steps]
        if not steps or min(map(min, steps)) < 0 or any(map(int.__ge__, latencies, latencies[1:])):
            raise ConfigurationError(
                f"avoid_slow_brokers is {list(map(tuple, steps))}; it must be a list of (latency_ms, pause_ms) pairs with rising "
                "latencies and no negative numbers, or True."
            )
        self._steps = tuple(LatencyStep(*step) for step in reversed(steps))
        self._paused: dict[str, int] = {}  # broker -> end of its pause, in ms

    def record_latency(self, broker: str, latency_ms: int, now_ms: int) -> None:
        pause_ms = self.pause_ms(latency_ms)
        if pause_ms and now_ms + pause_ms > self._paused.get(broker, 0):
            self._paused.pop(broker, None)
            self._paused[broker] = now_ms + pause_ms
            if len(self._paused) > _BROKERS_MAX:
                del self._paused[next(iter(self._paused))]

    def record_failure(self, broker: str, now_ms: int) -> None:
        self.record_latency(broker, FAILURE_MS, now_ms)

    def is_available(self, broker: str, now_ms: int) -> bool:
        return not self._paused or now_ms >= self._paused.get(broker, 0)

    def pause_ms(self, latency_ms: int) -> int:
        """Return how long a broker with this latency is skipped."""
        return next((step.pause_ms for step in self._steps if latency_ms >= step.latency_ms), 0)
