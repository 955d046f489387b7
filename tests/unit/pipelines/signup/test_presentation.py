"""How a sign-up demo is shown: document, rows, live lines, page."""

from __future__ import annotations

import json

from skyrocket.cli.output import to_json
from skyrocket.pipelines.signup.presentation import (
    FUNNEL_HEAD,
    LATENCY_HEAD,
    SERVICE_HEAD,
    demo_document,
    demo_page,
    funnel_rows,
    latency_rows,
    live_lines,
    service_rows,
    summary_sentence,
)
from skyrocket.pipelines.signup.result import LOOKS_MAX, DemoHistory
from skyrocket.report import render_page
from tests.unit.pipelines.signup.results import clean_result, empty_result, lossy_result


def test_the_document_of_a_clean_run_is_json_with_every_part():
    document = json.loads(to_json(demo_document(clean_result())))
    assert (document["isClean"], document["problems"]) == (True, [])
    assert document["latencies"]["inLine"]["percentilesMs"]["50"] == 262
    assert document["latencies"]["queued"]["answered"] == 1_410
    assert [one["service"] for one in document["services"]] == ["sms", "push", "coupons", "red-packets"]
    assert document["services"][2]["backlogMax"] > 300
    assert document["funnel"][0]["registered"] == 270
    assert (document["audit"]["missing"], document["deadLetters"][0]["user"]) == (0, "u-000007")


def test_a_loss_is_in_the_document_the_text_and_the_page():
    lossy = lossy_result()
    assert not lossy.is_clean
    assert demo_document(lossy)["services"][2]["missing"] == ["u-000013"]
    assert summary_sentence(lossy) == (
        "The demo found problems:\n  coupons: 1 user got nothing: u-000013.\n  coupons: 1 user got it more than once: u-000014."
    )
    page = render_page(demo_page(lossy))
    assert "coupons: 1 user got nothing: u-000013." in page
    assert "Every service served every user exactly once" not in page


def test_rows_have_a_cell_for_each_head():
    result = clean_result()
    for head, rows in (
        (SERVICE_HEAD, service_rows(result)),
        (LATENCY_HEAD, latency_rows(result)),
        (FUNNEL_HEAD, funnel_rows(result.funnel)),
    ):
        assert {len(row) for row in rows} == {len(head)}
    assert service_rows(result)[1][:4] == ("push", 500, 500, 0)


def test_the_page_shows_both_histograms_the_backlog_the_funnel_and_escapes_bodies():
    page = render_page(demo_page(clean_result()))
    for text in ("in-line", "over the queue", "Backlog of each service", "Funnel by minute", "Dead letters"):
        assert text in page
    assert "u-000&lt;007&gt;" in page
    assert "<007>" not in page
    assert summary_sentence(clean_result()).startswith("Nothing was lost, and every effect happened once.")


def test_an_empty_run_has_a_page_too():
    page = render_page(demo_page(empty_result()))
    assert "There was no poison message." in page
    assert "Nobody registered." in page


def test_live_lines_tell_what_waits_what_happened_and_the_last_minutes():
    result = clean_result()
    lines = live_lines(result.history, result.funnel)
    assert lines[0].startswith("waiting: sms ")
    assert lines[1].endswith("coupons: killed with kill -9")
    assert lines[3].split() == [name.lower() for name in FUNNEL_HEAD]
    assert len(lines) == 4 + len(result.funnel)
    assert live_lines(DemoHistory(), []) == ()


def test_looks_at_the_backlog_are_bounded():
    history = DemoHistory()
    for number in range(LOOKS_MAX + 5):
        history.add_backlog("sms", number, number)
    assert len(history.backlogs["sms"]) == LOOKS_MAX
    assert history.highest("sms") == history.waiting("sms") == LOOKS_MAX - 1
