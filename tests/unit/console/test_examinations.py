"""One examination at a time, results for a while, and links to what a finding is about."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skyrocket.client import NoNameserverError
from skyrocket.console.examinations import Examinations, Subject
from skyrocket.console.limits import EXAMINATION_KEPT_MS, EXAMINATIONS_KEPT_MAX, URGENT_MS
from skyrocket.console.pages.doctor import link_subjects, list_urgent
from skyrocket.doctor.examination import Examination
from skyrocket.doctor.finding import Diagnosis
from skyrocket.report.parts import Severity

CLUSTER, COUPONS = Subject(), Subject(group="coupons")


class Doctor:
    """Counts examinations. Each lasts until `may_end` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.now_ms = 1_000_000
        self.may_end = asyncio.Event()
        self.error = error
        self.examinations = Examinations(None, lambda: self.now_ms, self.examine)  # type: ignore[arg-type]

    async def examine(self, _admin: Any, groups: tuple[str, ...], topics: tuple[str, ...]) -> Examination:
        self.asked.append((groups, topics))
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return Examination([], ["1 broker"])


async def test_however_many_look_there_is_one_examination():
    doctor = Doctor()
    views = [doctor.examinations.look(CLUSTER) for _ in range(5)]
    assert {(view.result, view.is_running, view.waits) for view in views} == {(None, True, False)}
    other = doctor.examinations.look(COUPONS)
    assert (other.is_running, other.waits) == (False, True)
    await asyncio.sleep(0)
    assert doctor.asked == [((), ())]
    doctor.may_end.set()
    await doctor.examinations.wait()
    view = doctor.examinations.look(CLUSTER)
    assert view.result is not None
    assert (view.is_running, view.waits) == (False, False)
    assert doctor.examinations.look(COUPONS).is_running, "now it is the other one's turn"
    await doctor.examinations.wait()
    assert doctor.asked == [((), ()), (("coupons",), ())]


async def test_a_result_is_kept_for_a_while_and_shown_until_there_is_another():
    doctor = Doctor()
    doctor.may_end.set()
    doctor.examinations.look(CLUSTER)
    await doctor.examinations.wait()
    doctor.now_ms += EXAMINATION_KEPT_MS - 1
    assert not doctor.examinations.look(CLUSTER).is_running
    doctor.now_ms += 1
    again = doctor.examinations.look(CLUSTER)
    assert again.is_running
    assert again.result is not None, "the old one is shown meanwhile"
    await doctor.examinations.close()


async def test_only_some_results_are_kept():
    doctor = Doctor()
    doctor.may_end.set()
    for number in range(EXAMINATIONS_KEPT_MAX + 1):
        doctor.examinations.look(Subject(topic=f"topic-{number}"))
        await doctor.examinations.wait()
    assert doctor.examinations.last(Subject(topic="topic-0")) is None
    assert doctor.examinations.last(Subject(topic=f"topic-{EXAMINATIONS_KEPT_MAX}")) is not None


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (NoNameserverError("No nameserver answers."), "No nameserver answers."),
        (TimeoutError(), "did not end within 120 s"),
        (RuntimeError("a bug"), "The console's log says why"),
    ],
)
async def test_an_examination_that_fails_says_why_and_the_next_one_begins(error: Exception, sentence: str):
    doctor = Doctor(error)
    doctor.may_end.set()
    doctor.examinations.look(CLUSTER)
    await doctor.examinations.wait()
    result = doctor.examinations.last(CLUSTER)
    assert result is not None
    assert sentence in result.error
    assert doctor.examinations.look(COUPONS).is_running
    await doctor.examinations.close()


def finding(about: str, severity: Severity = Severity.PROBLEM) -> Diagnosis:
    return Diagnosis("rule", severity, about, "what", "evidence", "advice")


@pytest.mark.parametrize(
    ("about", "links"),
    [
        ("group coupons", [("group coupons", ("groups", "coupons"))]),
        ("group coupons, topic orders", [("group coupons", ("groups", "coupons")), ("topic orders", ("topics", "orders"))]),
        ("topic %RETRY%coupons", [("topic %RETRY%coupons", ("topics", "%RETRY%coupons"))]),
        ("broker broker-a (127.0.0.1:10911)", [("broker broker-a (127.0.0.1:10911)", ("brokers", "127.0.0.1:10911"))]),
        ("broker broker-a", [("broker broker-a", ("cluster",))]),
        ("nameserver 127.0.0.1:9876", [("nameserver 127.0.0.1:9876", ("cluster",))]),
        ("cluster", []),
        ("this machine", []),
    ],
)
def test_a_finding_leads_to_the_pages_of_what_it_names(about: str, links: list[tuple[str, tuple[str, ...]]]):
    assert [(one.text, one.parts) for one in link_subjects(finding(about))] == links


async def test_the_overview_has_problems_and_warnings_alone():
    doctor = Doctor()
    assert list_urgent(doctor.examinations.last(CLUSTER), doctor.now_ms) == []
    doctor.may_end.set()
    doctor.examinations.look(CLUSTER)
    await doctor.examinations.wait()
    result = doctor.examinations.last(CLUSTER)
    assert result is not None
    found = [finding(severity.value, severity) for severity in Severity]
    result = result._replace(examined=Examination(found, []))
    assert {one.about for one in list_urgent(result, doctor.now_ms)} == {"problem", "warning"}
    assert list_urgent(result, doctor.now_ms + URGENT_MS + 1) == [], "by now they may be cured"
