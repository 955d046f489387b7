"""Scales and ticks of charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

_SECOND_MS: Final = 1_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_TIME_STEPS_MS: Final = tuple(
    seconds * _SECOND_MS
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200),
        *(86_400 * days for days in (1, 2, 7, 14, 30, 90, 180, 365, 730, 3_650)),
    )
)
TICKS: Final = 5  # about so many on an axis
TIME_LABELS: Final = 6


class LinearScale(NamedTuple):
    """Maps values from `low` to `high` onto positions from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        if self.high <= self.low:
            return self.start
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def nice_ticks(high: float, count: int = TICKS) -> list[float]:
    """Return ticks from 0 to at least `high` whose step is 1, 2 or 5 times a power of ten."""
    if not math.isfinite(high) or high <= 0:
        return [0.0, 1.0]
    rough = high / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(high / step - 1e-9) + 1)]


def time_ticks(low_ms: float, high_ms: float, count: int = TIME_LABELS) -> list[tuple[float, str]]:
    """Return round moments between two times with their labels, in UTC."""
    span = high_ms - low_ms
    if span <= 0:
        return [(low_ms, _time_label(low_ms, _SECOND_MS))]
    step = next((step for step in _TIME_STEPS_MS if span / step <= count), _TIME_STEPS_MS[-1] * 10)
    first = math.ceil(low_ms / step) * step
    return [(moment, _time_label(moment, step)) for moment in range(int(first), int(high_ms) + 1, step)]


def _time_label(time_ms: float, step_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms:.0f}"
    if step_ms >= _DAY_MS or (step_ms >= _HOUR_MS and time_ms % _DAY_MS == 0):  # midnight shows its date
        return f"{moment:%d %b %Y}" if step_ms >= 180 * _DAY_MS else f"{moment:%d %b}"
    return f"{moment:%H:%M:%S}" if step_ms < 60 * _SECOND_MS else f"{moment:%H:%M}"


def thin_points(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Return at most about `most` points of a line with the same look: of each stretch the lowest and the highest point.

    The first and the last point stay. Points that are no numbers go.
    """
    sound = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if len(sound) <= most:
        return sound
    inner, stretches = sound[1:-1], max(1, (most - 2) // 2)
    kept = [sound[0]]
    for number in range(stretches):
        part = inner[len(inner) * number // stretches : len(inner) * (number + 1) // stretches]
        if part:
            lowest, highest = min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])
            kept += sorted({lowest, highest})
    return [*kept, sound[-1]]
