"""Figures of a load: counts, rates and quantiles of latencies. Pure, and bounded however long the load runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

_WIDTH: Final = math.log(1.02)  # a bucket is 2 % wide, so a quantile is exact to 2 %
_BUCKETS: Final = 1_100  # from 1 µs to more than 1,000 s


@dataclass(slots=True)
class LatencyHistogram:
    """Counts latencies in buckets that grow by 2 %."""

    count: int = 0
    highest_us: float = 0.0
    _counts: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def add(self, latency_us: float) -> None:
        bucket = int(math.log(latency_us) / _WIDTH) if latency_us > 1 else 0
        self._counts[min(bucket, _BUCKETS - 1)] += 1
        self.count += 1
        self.highest_us = max(self.highest_us, latency_us)

    def quantile_us(self, part: float) -> float:
        """Return the latency that this part of all does not exceed, to 2 %. 0 when there is none."""
        wanted, seen = math.ceil(part * self.count), 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(math.exp((bucket + 1) * _WIDTH), self.highest_us)
        return 0.0


@dataclass(slots=True)
class LoadFigures:
    """One direction of a load: sent, or received."""

    errors: int = 0
    seconds: float = 0.0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def rate(self) -> float:
        return self.latencies.count / self.seconds if self.seconds > 0 else 0.0

    def document(self, body_bytes: int) -> dict[str, Any]:
        found = self.latencies
        return {
            "messages": found.count,
            "errors": self.errors,
            "seconds": round(self.seconds, 3),
            "messagesPerSecond": round(self.rate(), 1),
            "megabytesPerSecond": round(self.rate() * body_bytes / 1e6, 3),
            "p50Ms": round(found.quantile_us(0.5) / 1000, 3),
            "p99Ms": round(found.quantile_us(0.99) / 1000, 3),
            "maxMs": round(found.highest_us / 1000, 3),
        }
