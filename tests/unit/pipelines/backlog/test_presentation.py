"""How a backlog is shown: rows, documents, pages, and the history of its charts."""

from __future__ import annotations

import json

import pytest

from skyrocket.doctor.backlog.measure import measure
from skyrocket.doctor.backlog.rules import find_advice
from skyrocket.pipelines.backlog.job import check_period
from skyrocket.pipelines.backlog.latency import summarize
from skyrocket.pipelines.backlog.presentation import (
    BacklogHistory,
    BacklogReport,
    advice_lines,
    backlog_document,
    backlog_page,
    latency_rows,
    topic_rows,
    unknown_lines,
)
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.report import render_page
from tests.unit.doctor.backlog.looks import NOW_MS, at, cluster, member


def report(seconds_later: int = 0) -> BacklogReport:
    before = cluster(NOW_MS - 10_000, [at(0, 100, 200), at(1, 0, 0)])
    now = cluster(NOW_MS + 1000 * seconds_later, [at(0, 150, 400), at(1, 0, 0)], member("<m1>", 0, 1))
    groups = measure(before, now)
    latency = summarize("send to store", "orders", [1, 2, 300])
    return BacklogReport(
        now.at_ms, groups, find_advice(groups, now.reserved_ms), [latency] if latency else [], {"sms": "no answer"}
    )


def test_rows():
    assert topic_rows(report()) == [("coupons", "orders", 2, 250, "20", "5", "never", "–", "2.0")]
    (line, evidence, *_) = advice_lines(report())
    assert line.startswith("WARNING: Group 'coupons' falls behind")
    assert evidence.startswith("    20/s produced")


def test_a_look_that_got_no_answer_says_so_everywhere():
    failed = BacklogReport(NOW_MS, (), failure="No nameserver answers.")
    assert backlog_document(failed)["failure"] == "No nameserver answers."
    assert unknown_lines(failed) == ["The cluster did not answer this look: No nameserver answers."]
    history = BacklogHistory()
    for one in (report(), failed):
        history.add(one)
    assert len(history) == 1
    assert "The cluster did not answer this look." in render_page(backlog_page(failed, history, "127.0.0.1:9876"))
    assert latency_rows(report()) == [("send to store", "orders", 3, "2 ms", "300 ms", "300 ms", "300 ms")]


def test_the_document_is_plain_json():
    document = json.loads(json.dumps(backlog_document(report())))
    (topic,) = document["groups"][0]["topics"]
    assert (topic["lag"], topic["producedPerS"], topic["drainMs"]) == (250, 20.0, None)
    assert document["latencies"][0]["p100Ms"] == 300
    assert document["advice"][0]["rule"] == "falling-behind"
    assert document["groups"][0]["members"][0]["queues"][0]["queueId"] == 0


def test_pages_of_an_empty_and_of_a_busy_cluster():
    history = BacklogHistory()
    for seconds in range(3):
        history.add(report(seconds))
    page = render_page(backlog_page(report(), history, "127.0.0.1:9876"))
    assert "Lag over time" in page
    assert "&lt;m1&gt;" in page
    assert "<m1>" not in page
    assert "Nothing is known of group &#x27;sms&#x27;." in page
    empty = render_page(backlog_page(BacklogReport(NOW_MS, []), BacklogHistory(), "127.0.0.1:9876"))
    assert "No rule found anything that needs attention." in empty


def test_the_history_is_bounded_and_knows_topics_that_come_and_go():
    history = BacklogHistory(most=2)
    for seconds in range(5):
        history.add(report(seconds))
    (line,) = history.lines()
    assert [x for x, _ in line.points] == [NOW_MS + 3_000, NOW_MS + 4_000]


@pytest.mark.parametrize(("every", "count"), [(-1, 1), (float("nan"), 1), (1e9, 1), (0, 2), (1, -1)])
def test_periods_that_make_no_sense(every: float, count: int):
    with pytest.raises(ArgumentError, match="--"):
        check_period(every, count)
