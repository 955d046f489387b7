"""Numbers as texts: three digits are as many as a benchmark can promise."""

from __future__ import annotations

import math


def rounded(value: float, digits: int = 3) -> float:
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def count(value: float) -> str:
    """A rate or a count: 17,100."""
    return f"{rounded(value):,.0f}"


def micros(value: float) -> str:
    """CPU time, in µs: 5.72, 41.3, 135."""
    return f"{plain(value)} µs"


def plain(value: float) -> str:
    """A number with three digits: 0.125, 4.03, 41.3, 135."""
    close = rounded(value)
    if close == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(close))))
    return f"{close:,.{min(decimals, 4)}f}"


def latency(us: float) -> str:
    """A latency in the unit that suits it: 217 µs, 1.4 ms, 0.79 s."""
    if us < 1000:
        return f"{plain(us)} µs"
    return f"{plain(us / 1000)} ms" if us < 1_000_000 else f"{plain(us / 1e6)} s"


def ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def share(value: float) -> str:
    return f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


def duration(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
