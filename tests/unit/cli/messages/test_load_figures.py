"""Quantiles of latencies are exact to 2 %, whatever the latencies are."""

from __future__ import annotations

import random

import pytest

from skyrocket.cli.messages.load_figures import LatencyHistogram, LoadFigures


@pytest.mark.parametrize("part", [0.5, 0.99, 0.999])
@pytest.mark.parametrize("scale", [3.0, 800.0, 2_000_000.0])
def test_a_quantile_is_within_two_percent(part: float, scale: float):
    chance = random.Random(7)
    values = sorted(chance.expovariate(1 / scale) + 2 for _ in range(5_000))
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    exact = values[int(part * len(values)) - 1]
    assert histogram.quantile_us(part) == pytest.approx(exact, rel=0.021)
    assert histogram.highest_us == values[-1]
    assert histogram.quantile_us(1.0) == values[-1]


def test_extremes_are_counted():
    histogram = LatencyHistogram()
    assert histogram.quantile_us(0.5) == 0.0
    for value in (0.0, 1.0, 1e12):
        histogram.add(value)
    assert histogram.count == 3
    assert histogram.quantile_us(0.3) <= 1.02


def test_a_load_is_a_document_of_rates_and_latencies():
    load = LoadFigures(errors=1, seconds=2.0)
    for _ in range(10):
        load.latencies.add(1_000.0)
    assert load.document(1_000_000) == {
        "messages": 10,
        "errors": 1,
        "seconds": 2.0,
        "messagesPerSecond": 5.0,
        "megabytesPerSecond": 5.0,
        "p50Ms": 1.0,
        "p99Ms": 1.0,
        "maxMs": 1.0,
    }
    assert LoadFigures().document(1)["messagesPerSecond"] == 0.0
