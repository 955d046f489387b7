"""Runtime figures of brokers become durations of stages, and two looks become what happened between them."""

from __future__ import annotations

import math

import pytest

from skyrocket.client.admin import StageDurations
from skyrocket.client.admin.stage_times import parse_put_percentiles, parse_stages


def durations(text: str) -> StageDurations:
    return parse_stages({"stageMillis_append": text})["append"]


def test_a_quantile_is_a_bound_that_so_many_did_not_exceed():
    times = durations("0.25:90 0.5:9 2.5:1")
    assert (times.observed, times.quantile_ms(0.5), times.quantile_ms(0.99), times.quantile_ms(1)) == (100, 0.25, 0.5, 2.5)
    assert durations("0.25:1 inf:9").quantile_ms(0.99) == math.inf
    assert durations("").quantile_ms(0.99) is None


def test_two_looks_tell_what_happened_between_them():
    earlier, later = durations("0.25:90 0.5:9"), durations("0.1:5 0.25:90 0.5:10 inf:2")
    between = later.since(earlier)
    assert (between.observed, between.quantile_ms(0.5), between.quantile_ms(0.99)) == (8, 0.1, math.inf)
    assert later.since(later).observed == 0


def test_after_a_restart_everything_is_new():
    assert durations("0.25:3 1:200").since(durations("0.25:90")) == durations("0.25:3 1:200")
    assert durations("").since(durations("0.25:90")) == durations("")


@pytest.mark.parametrize("text", ["x", "0.25", "0.25:many", "0.25:1 y:2"])
def test_a_row_that_makes_no_sense_is_left_out(text: str):
    assert parse_stages({"stageMillis_append": text, "stageMillis_other": "1:1"}) == {}


def test_apaches_percentiles_count_once_it_has_counted():
    rows = {"putLatency99": "1.50", "putLatency999": "3.00", "putMessageDistributeTime": "[<=0ms]:1075 [0~10ms]:123"}
    assert parse_put_percentiles(rows) == (1.5, 3.0)
    assert parse_put_percentiles({**rows, "putMessageDistributeTime": "null"}) == (None, None), "before the first minute"
    assert parse_put_percentiles({**rows, "putLatency99": "none"}) == (None, 3.0)
