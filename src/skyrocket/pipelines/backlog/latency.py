"""Latency from the times that a cluster keeps: percentiles, and what the message trace tells. Pure.

    born ──────▶ stored ──────▶ handler begins ──────▶ handler ends
         to store        waiting                handling

A record has the first two times. The last two are known only where clients write RocketMQ's message trace (`trace=True`). Clocks
of different machines take part, so differences below zero count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from skyrocket.protocol.message.trace import TraceRow, TraceType

PERCENTILES: Final = (50, 90, 99, 100)
BIN_EDGES_MS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 600_000)


class LatencySummary(NamedTuple):
    """Percentiles of one kind of latency, in ms."""

    what: str  # such as: to store, end to end
    where: str  # the topic or group that it was measured in
    messages: int
    percentiles_ms: tuple[int, ...]  # in the order of PERCENTILES
    bins: tuple[int, ...]  # how many values lie at or above each of BIN_EDGES_MS, and below the next


def summarize(what: str, where: str, values_ms: Iterable[int]) -> LatencySummary | None:
    """Return the percentiles of some latencies, by the nearest rank. None: there are none."""
    values = sorted(max(0, value) for value in values_ms)
    if not values:
        return None
    return LatencySummary(what, where, len(values), tuple(percentile(values, one) for one in PERCENTILES), _bins(values))


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the smallest value that at least `percent` of all values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _bins(values: Sequence[int]) -> tuple[int, ...]:
    counts = [0] * len(BIN_EDGES_MS)
    at = 0
    for value in values:
        while at + 1 < len(BIN_EDGES_MS) and value >= BIN_EDGES_MS[at + 1]:
            at += 1
        counts[at] += 1
    return tuple(counts)


def trace_latencies(rows: Iterable[TraceRow]) -> list[LatencySummary]:
    """Match the rows of a trace by message: how long each group took from the send until its handler began and ended.

    Only first deliveries count; a retry would add the time for which the broker held it back.
    """
    sent: dict[str, int] = {}
    begun: dict[tuple[str, str], TraceRow] = {}
    ended: dict[tuple[str, str], TraceRow] = {}
    for row in rows:
        if row.type is TraceType.PUB:
            sent.setdefault(row.message_id, row.time_ms)
        elif row.type is TraceType.SUB_BEFORE and not row.retry_times:
            begun.setdefault((row.request_id, row.message_id), row)
        elif row.type is TraceType.SUB_AFTER:
            ended.setdefault((row.request_id, row.message_id), row)
    until_begin: dict[str, list[int]] = {}
    until_end: dict[str, list[int]] = {}
    for key, row in begun.items():
        sent_ms = sent.get(row.message_id)
        if sent_ms is None:
            continue
        until_begin.setdefault(row.group, []).append(row.time_ms - sent_ms)
        if key in ended:
            until_end.setdefault(row.group, []).append(row.time_ms + ended[key].cost_ms - sent_ms)
    found = [summarize("send to handler", group, values) for group, values in sorted(until_begin.items())]
    found += [summarize("end to end", group, values) for group, values in sorted(until_end.items())]
    return [one for one in found if one is not None]
