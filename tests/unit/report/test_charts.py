"""Scales, ticks, thinning, bins, shades and texts of charts."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.report.charts import WIDTH, draw_bars, draw_columns, draw_lines, join_bins, largest_series, shade_of
from skyrocket.report.limits import BINS_MAX, SERIES_MAX
from skyrocket.report.parts import BarChart, ColumnChart, ColumnSeries, LineChart, LineSeries
from skyrocket.report.scale import LinearScale, nice_ticks, thin_points, time_ticks
from skyrocket.report.texts import (
    count_of,
    escape_text,
    format_duration,
    format_moment,
    format_number,
    short_number,
    shorten,
)


@given(st.floats(min_value=1e-6, max_value=1e15))
def test_ticks_are_round_and_cover_the_values(high: float):
    ticks = nice_ticks(high)
    assert ticks[0] == 0
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 2 <= len(ticks) <= 7
    step = ticks[1]
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


@given(st.integers(0, 2**41), st.integers(1, 2**38))
def test_time_ticks_lie_between_the_times(start: int, span: int):
    ticks = time_ticks(start, start + span)
    assert len(ticks) <= 7
    assert all(start <= moment <= start + span for moment, _ in ticks)


def test_time_labels_fit_their_step():
    noon = 1_700_049_600_000  # 12:00 UTC
    assert [text for _, text in time_ticks(noon, noon + 20_000)] == ["12:00:00", "12:00:05", "12:00:10", "12:00:15", "12:00:20"]
    assert [text for _, text in time_ticks(noon, noon + 4 * 3_600_000)] == ["12:00", "13:00", "14:00", "15:00", "16:00"]
    assert [text for _, text in time_ticks(noon, noon + 36 * 3_600_000)] == [
        "12:00",
        "18:00",
        "16 Nov",
        *("06:00", "12:00", "18:00"),
        "17 Nov",
    ]
    assert [text for _, text in time_ticks(noon, noon + 4 * 86_400_000)] == ["16 Nov", "17 Nov", "18 Nov", "19 Nov"]


@given(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3_000), st.integers(10, 200))
def test_thinning_keeps_the_ends_and_the_extremes(values: list[float], most: int):
    points = [(float(index), value) for index, value in enumerate(values)]
    kept = thin_points(points, most)
    assert len(kept) <= max(most, 4)
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)
    assert max(y for _, y in kept) == max(values)
    assert min(y for _, y in kept) == min(values)


def test_points_that_are_no_numbers_are_left_out():
    assert thin_points([(0.0, math.nan), (1.0, 2.0), (math.inf, 1.0)], 10) == [(1.0, 2.0)]


def test_a_scale_of_one_value_does_not_divide_by_zero():
    assert LinearScale(5, 5, 0, 100).at(5) == 0


def test_the_highest_lines_are_kept_in_their_order():
    series = [LineSeries(str(number), [(0.0, float(number % 7))]) for number in range(30)]
    kept = largest_series(series)
    assert len(kept) == SERIES_MAX
    assert [int(one.name) for one in kept] == sorted(int(one.name) for one in kept)
    assert all(int(one.name) % 7 >= 5 for one in kept)


def test_joined_bins_have_the_same_total():
    labels, counts = join_bins([str(n) for n in range(1_000)], list(range(1_000)), 80)
    assert len(counts) <= 80
    assert sum(counts) == sum(range(1_000))
    assert labels[0] == "0"


@pytest.mark.parametrize(("value", "shade"), [(0, 0), (0.001, 1), (50, 4), (100, 8)])
def test_shades(value: float, shade: int):
    assert shade_of(value, 100) == shade


def test_values_are_tooltips():
    assert "<title>orders: 1,500 messages</title>" in draw_bars(BarChart("b", [("orders", 1500.0)], "messages"))
    chart = LineChart("l", [LineSeries("lag", [(1_700_049_600_000.0, 12.0)])], "messages")
    assert "lag: 12 messages at 2023-11-15 12:00:00 UTC" in draw_lines(chart)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (None, "–"),
    ],
)
def test_durations(duration_ms: float | None, text: str):
    assert format_duration(duration_ms) == text


def test_numbers_and_times():
    assert [format_number(value) for value in (0, 12, 1234567, 0.126, 12.34, 123.4, math.inf)] == [
        *("0", "12", "1,234,567", "0.13", "12.3", "123", "–"),
    ]
    assert [short_number(value) for value in (0, 950, 1_250, 2_500_000, 3e9)] == ["0", "950", "1.25k", "2.5M", "3G"]
    assert format_moment(0) == "–"
    assert format_moment(1e30) == f"{1e30:.0f} ms"
    assert (count_of(1, "queue"), count_of(2_000, "queue")) == ("1 queue", "2,000 queues")


def test_names_are_cut_in_their_middle():
    assert shorten("topic-17", 8) == "topic-17"
    assert shorten("topic-with-a-long-name-17", 9) == "topi…e-17"


def test_controls_are_shown_and_long_texts_cut():
    assert escape_text("a\x00b\u202ec\ud800") == "a\\x00b\\u202ec\\ud800"
    assert escape_text("abcdef", 4) == "abc…"
    assert escape_text("a\nb") == "a\nb"


def test_columns_of_a_label_stand_side_by_side_with_their_values_as_tooltips():
    series = [ColumnSeries("in-line", [10, 90]), ColumnSeries("queued", [100, 0])]
    drawn = draw_columns(ColumnChart("Latency", ["1 ms", "<2 ms>"], series, "%"))
    assert drawn.count('class="column"') == 4
    assert drawn.index('<g class="s0">') < drawn.index('<g class="s1">')
    assert "in-line, &lt;2 ms&gt;: 90 %" in drawn
    assert "queued, 1 ms: 100 %" in drawn
    places = [float(part.split('"', 1)[0]) for part in drawn.split('<rect x="')[1:]]
    assert places == sorted(places[:2]) + sorted(places[2:])
    assert places[0] < places[2] < places[1] < places[3], "in-line and queued take turns"


def test_columns_are_bounded_and_say_so_and_without_values_there_is_no_chart():
    many = ColumnChart("x", [str(number) for number in range(BINS_MAX + 3)], [ColumnSeries("a", [1.0] * (BINS_MAX + 3))])
    drawn = draw_columns(many)
    assert drawn.count('class="column"') == BINS_MAX
    assert f"The first {BINS_MAX} of {BINS_MAX + 3} labels are shown." in drawn
    for empty in ([], [ColumnSeries("a", [0.0])], [ColumnSeries("a", [math.nan])]):
        assert "There is no data" in draw_columns(ColumnChart("x", ["1"], empty))


def test_the_last_time_of_a_chart_stays_inside_of_it():
    points = [(1_800_000_000_000.0 + 1_000 * number, float(number)) for number in range(5)]
    drawn = draw_lines(LineChart("a", [LineSeries("b", points)]))
    times = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="(\w+)"[^>]*class="tick"[^>]*>(\d\d:\d\d:\d\d)<', drawn)
    assert len(times) >= 3
    ends = [float(x) + (0 if anchor == "end" else 3.4 * len(text)) for x, anchor, text in times]
    assert max(ends) <= WIDTH
