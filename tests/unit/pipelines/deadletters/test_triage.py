"""The triage: causes, ages, topics, samples, bounds; and how it is shown."""

from __future__ import annotations

import pytest

from skyrocket.pipelines.deadletters.presentation import age_rows, body_sample, cause_rows, letters_page, triage_document
from skyrocket.pipelines.deadletters.triage import NO_REASON, OTHER, SAMPLES_MAX, CauseKey, Triage, age_label, plain_reason
from skyrocket.report import render_page
from tests.unit.pipelines.deadletters.letters import NOW_MS, letter


def triage_of(*letters) -> Triage:
    triage = Triage(NOW_MS)
    triage.add_all(letters)
    return triage


def test_letters_with_the_same_reason_topic_and_retries_are_one_cause():
    reasons = ["order 17 not found", "order 18 not found\nat line 3", "timeout after 3.5 s"]
    triage = triage_of(*(letter(number, properties={"exception": text}) for number, text in enumerate(reasons)), letter(9))
    assert [(key.reason, found.count) for key, found in triage.most_frequent()] == [
        ("order # not found", 2),
        (NO_REASON, 1),
        ("timeout after # s", 1),
    ]
    assert (triage.count, triage.by_topic["%DLQ%coupons", "orders"]) == (4, 4)


@pytest.mark.parametrize(
    ("text", "plain"),
    [("at 0x7f3a", "at #"), ("id 9f8e7d6c5b4a", "id #"), ("2026-11-18 10:00", "# #"), ("café", "café"), ("  \n", NO_REASON)],
)
def test_what_varies_is_replaced(text: str, plain: str):
    assert plain_reason(text) == plain


@pytest.mark.parametrize(("age_ms", "label"), [(-5, "< 1 min"), (59_999, "< 1 min"), (3_600_000, "< 6 h"), (10**12, "≥ 7 d")])
def test_ages(age_ms: int, label: str):
    assert age_label(age_ms) == label


def test_only_ages_that_letters_have_are_rows():
    triage = triage_of(letter(1), letter(2), letter(3, died_ms=NOW_MS - 3_600_000))
    assert age_rows(triage) == [("< 1 min", 2), ("< 6 h", 1)]


def test_causes_topics_and_samples_are_bounded():
    triage = Triage(NOW_MS, causes_max=2)
    for number in range(30):
        triage.add(letter(number, origin_topic=f"t{number}"))
    assert len(triage.causes) == 3
    assert triage.causes[CauseKey(OTHER, 0, OTHER)].count == 28
    assert len(triage.causes[CauseKey(OTHER, 0, OTHER)].samples) == SAMPLES_MAX
    assert len(triage.by_topic) == 3
    assert triage.count == 30


def test_times_are_those_of_the_first_and_the_last_letter():
    triage = triage_of(*(letter(number, died_ms=time_ms) for number, time_ms in enumerate((500, 100, 900))))
    ((_, found),) = triage.most_frequent()
    assert (found.first_ms, found.last_ms) == (100, 900)


@pytest.mark.parametrize(
    ("body", "sample"),
    [(b"plain", "plain"), (b"\xff\x00", "\\xff\x00"), (b"abcdef", "abc… (6 bytes)"), ("é".encode() * 3, "ééé")],
)
def test_samples_of_bodies_are_bounded_text(body: bytes, sample: str):
    assert body_sample(body, 3 if body == b"abcdef" else 10) == sample


def test_a_page_of_hostile_letters_is_escaped_and_an_empty_one_says_so():
    hostile = letter(tag="<b>", keys=("<script>",), body=b"<script>alert(1)</script>", properties={"error": "<img>"})
    page = render_page(letters_page(triage_of(hostile), ["%DLQ%coupons"], "127.0.0.1:9876", NOW_MS))
    assert "<script>" not in page
    assert "<img>" not in page
    assert "There are no dead letters." in render_page(letters_page(triage_of(), [], "x", NOW_MS))


def test_rows_and_document():
    triage = triage_of(letter(1), letter(2, body=b"\xff"))
    assert cause_rows(triage)[0][:4] == (2, "orders", 16, NO_REASON)
    document = triage_document(triage, ["%DLQ%coupons"])
    assert document["letters"] == 2
    assert [one["body"] for one in document["causes"][0]["samples"]] == ["body 1", "\\xff"]
