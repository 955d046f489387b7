"""The number of series of a metric is bounded, and what is beyond the bound is still counted."""

from __future__ import annotations

import logging

import pytest

from skyrocket.metrics.family import Fold, Row, counter, gauge, histogram
from skyrocket.metrics.histogram import HistogramState
from skyrocket.metrics.series_limit import SeriesLimit

MESSAGES = counter("messages_total", "", "topic")


def shown(limit: SeriesLimit, given: list[Row], most: int) -> list[Row]:
    """The rows on a page: those that have a place, and the one for the others."""
    placed = [row for row in given if limit.take(*row, most)]
    other = limit.finish(most)
    return placed if other is None else [*placed, other]


def rows(**values: int) -> list[Row]:
    return [((topic,), value) for topic, value in values.items()]


def test_rows_beyond_the_limit_are_one_row_with_their_sum():
    assert shown(SeriesLimit(MESSAGES), rows(a=1, b=2, c=4, d=8), 2) == [(("a",), 1), (("b",), 2), (("(other)",), 12)]


def test_histograms_beyond_the_limit_are_one_histogram():
    limit = SeriesLimit(histogram("size", "", "topic"))
    rows: list[Row] = [((topic,), HistogramState((1, 2), [1, number, 9], 4.5)) for number, topic in enumerate("abc", 2)]
    assert shown(limit, rows, 1) == [rows[0], (("(other)",), HistogramState((1, 2), [2, 7, 18], 9.0))]


def test_ages_beyond_the_limit_are_one_row_with_the_oldest():
    assert shown(SeriesLimit(gauge("age", "", "topic", fold=Fold.MAX)), rows(a=1, b=9, c=4), 1) == [
        (("a",), 1),
        (("(other)",), 9),
    ]


def test_a_series_keeps_its_place_whatever_comes_before_it():
    limit = SeriesLimit(MESSAGES)
    shown(limit, rows(a=1, b=2), 2)
    assert shown(limit, rows(z=100, b=3, a=2), 2) == [(("b",), 3), (("a",), 2), (("(other)",), 100)]


def test_no_place_is_given_away_while_rows_are_put_together():
    limit = SeriesLimit(MESSAGES)
    shown(limit, rows(a=1, b=2, c=4), 2)
    assert shown(limit, rows(b=2, c=4), 2) == [(("b",), 2), (("(other)",), 4)], "c would look like a counter that restarts"


def test_a_place_is_free_when_its_topic_is_gone():
    limit = SeriesLimit(MESSAGES)
    shown(limit, rows(a=1, b=2), 2)
    shown(limit, rows(b=2), 2)
    assert shown(limit, rows(b=2, c=4), 2) == [(("b",), 2), (("c",), 4)]


def test_the_log_says_it_once(caplog: pytest.LogCaptureFixture):
    limit = SeriesLimit(MESSAGES)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            shown(limit, rows(a=1, b=2), 1)
    assert len(caplog.messages) == 1
    assert "messages_total" in caplog.text
    assert "metricsOtelCardinalityLimit" in caplog.text


def test_a_metric_without_labels_has_its_row():
    assert shown(SeriesLimit(counter("all_total", "")), [((), 5)], 1) == [((), 5)]
