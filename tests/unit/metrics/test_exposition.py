"""The text format of Prometheus: escapes, numbers, histograms."""

from __future__ import annotations

import math

import pytest

from skyrocket.metrics.exposition import ExpositionWriter, format_number
from skyrocket.metrics.family import counter, gauge, histogram
from skyrocket.metrics.histogram import Histogram


def test_a_metric_has_its_help_and_its_type():
    head = ExpositionWriter({}).head(counter("messages_total", "Messages \\ of\nall."))
    assert head == "# HELP messages_total Messages \\\\ of\\nall.\n# TYPE messages_total counter\n"


def test_a_row_has_the_labels_of_the_server_and_its_own():
    writer = ExpositionWriter({"cluster": "c1"})
    assert writer.row(gauge("lag", "", "topic"), ("orders",), 7) == 'lag{cluster="c1",topic="orders"} 7\n'
    assert writer.row(gauge("lag", ""), (), 7) == 'lag{cluster="c1"} 7\n'
    assert ExpositionWriter({}).row(gauge("lag", "", "topic"), ("orders",), 7) == 'lag{topic="orders"} 7\n'
    assert ExpositionWriter({}).row(gauge("lag", ""), (), 7) == "lag 7\n"


def test_quotes_backslashes_and_line_ends_of_a_label_are_escaped():
    row = ExpositionWriter({}).row(gauge("lag", "", "topic"), ('a"b\\c\nd',), 1)
    assert row == 'lag{topic="a\\"b\\\\c\\nd"} 1\n'


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (2**60, str(2**60)), (0.25, "0.25"), (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN")]
)
def test_numbers(value: float, text: str):
    assert format_number(value) == text


def test_buckets_of_a_histogram_are_cumulative_and_include_their_bound():
    times = Histogram((0.5, 2))
    for value in (0.5, 0.75, 2, 9):
        times.observe(value)
    lines = ExpositionWriter({"cluster": "c1"}).row(histogram("pause", "", "stage"), ("flush",), times.state())
    assert lines == (
        'pause_bucket{cluster="c1",stage="flush",le="0.5"} 1\n'
        'pause_bucket{cluster="c1",stage="flush",le="2.0"} 3\n'
        'pause_bucket{cluster="c1",stage="flush",le="+Inf"} 4\n'
        'pause_count{cluster="c1",stage="flush"} 4\n'
        'pause_sum{cluster="c1",stage="flush"} 12.25\n'
    )


def test_a_histogram_without_labels_has_no_empty_braces():
    lines = ExpositionWriter({}).row(histogram("pause", ""), (), Histogram((1,)).state())
    assert lines == 'pause_bucket{le="1.0"} 0\npause_bucket{le="+Inf"} 0\npause_count 0\npause_sum 0.0\n'
