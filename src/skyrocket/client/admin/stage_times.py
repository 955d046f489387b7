"""Where a broker spends the time of a request: how many durations of each stage were how long, from its runtime figures. Pure.

    stageMillis_append: 0.25:180 0.5:112 inf:1    of our brokers: counts since the broker started
    putLatency99: 1.00, putLatency999: 3.00       of Apache's: the percentiles of storing a message over the last minute

Our counts only grow. The difference of two looks is what happened between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from skyrocket.client.admin.results import StageDurations

STAGES: Final = ("queue", "append", "flush", "replicate", "park", "answer")
"""The stages of our broker, in the order in which a request passes them."""
_ROW: Final = "stageMillis_"
_DISTRIBUTION: Final = "putMessageDistributeTime"


def parse_stages(runtime: Mapping[str, str]) -> dict[str, StageDurations]:
    """Return the stages that a broker measures; none of Apache's. A row that makes no sense is left out."""
    found = {}
    for stage in STAGES:
        if (text := runtime.get(f"{_ROW}{stage}")) is not None and (times := _parse_row(text)) is not None:
            found[stage] = times
    return found


def _parse_row(text: str) -> StageDurations | None:
    counted: dict[float, int] = {}
    try:
        for pair in text.split():
            bound, _, count = pair.partition(":")
            counted[float(bound)] = int(count)
    except ValueError:
        return None
    bounds = sorted(bound for bound in counted if bound < math.inf)
    return StageDurations(bounds_ms=tuple(bounds), counts=(*(counted[bound] for bound in bounds), counted.get(math.inf, 0)))


def parse_put_percentiles(runtime: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return how long 99 and 99.9 percent of messages took Apache's broker to store, in milliseconds; None: it does not tell."""
    if runtime.get(_DISTRIBUTION, "null") == "null":
        # Apache's broker has counted for less than a minute. Ours has the rows because tools expect them, and no values.
        return None, None
    return _parse_number(runtime.get("putLatency99", "")), _parse_number(runtime.get("putLatency999", ""))


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
