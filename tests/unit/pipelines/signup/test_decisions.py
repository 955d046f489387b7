"""The decisions of the sign-up demo: services, plan, histograms, funnel."""

from __future__ import annotations

import pytest

from skyrocket.pipelines.signup.funnel import StepCount, compare_totals, funnel_totals, make_funnel
from skyrocket.pipelines.signup.latencies import EDGES_MS, bin_label, make_histogram, used_bins
from skyrocket.pipelines.signup.plan import DemoAction, make_plan
from skyrocket.pipelines.signup.services import BY_NAME, SERVICES, StepOutcome, decide, fails_at_first, step_seconds
from skyrocket.pipelines.signup.sign_ups import SignUp, encode_body

# --- services


def body_of(user: str, *, is_poison: bool = False) -> bytes:
    return encode_body(SignUp(user, "web", 0, is_poison=is_poison), 1, 10)


def test_a_service_has_the_users_of_its_tag():
    users = {"a": "app", "w": "web"}
    assert {service.name: service.expects(users) for service in SERVICES} == {
        "sms": {"a", "w"},
        "push": {"a"},
        "coupons": {"a", "w"},
        "red-packets": {"a", "w"},
    }
    assert BY_NAME["red-packets"].joins_late


def test_a_step_takes_50_to_150_ms_and_always_the_same_for_a_user():
    drawn = [step_seconds(1, "sms", f"u-{number}") for number in range(500)]
    assert 0.05 <= min(drawn) < 0.06
    assert 0.14 < max(drawn) <= 0.15
    assert drawn == [step_seconds(1, "sms", f"u-{number}") for number in range(500)]
    assert step_seconds(1, "push", "u-1") != step_seconds(1, "sms", "u-1") != step_seconds(2, "sms", "u-1")


def test_a_step_that_fails_does_so_at_the_first_attempt_only():
    failing = [user for user in (f"u-{number}" for number in range(2_000)) if fails_at_first(1, "sms", user)]
    assert 30 < len(failing) < 100
    first, second = (decide(1, "sms", body_of(failing[0]), times) for times in (0, 1))
    assert (first.outcome, first.why) == (StepOutcome.FAIL, "The sms service was not reached.")
    assert (second.outcome, second.step_s) == (StepOutcome.SERVE, first.step_s)
    assert second.body is not None
    assert second.body.user == failing[0]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_poison_is_refused_at_every_attempt(times: int):
    decision = decide(1, "sms", body_of("u-1", is_poison=True), times)
    assert (decision.outcome, decision.body) == (StepOutcome.REFUSE, None)


# --- plan


def test_a_quarter_of_the_time_is_in_line_and_everything_happens_within_the_rest():
    plan = make_plan(60)
    assert (plan.in_line_s, plan.queued_s) == (15, 45)
    assert [(one.at_s, one.action, one.service) for one in plan.actions] == [
        (12, DemoAction.KILL, "coupons"),
        (24, DemoAction.RESTART, "coupons"),
        (30, DemoAction.JOIN, "red-packets"),
    ]
    assert all(one.at_s < plan.queued_s for one in plan.actions)


def test_an_action_is_due_once():
    plan = make_plan(60)
    assert plan.due(11.9, 0) == []
    assert [one.action for one in plan.due(12, 0)] == [DemoAction.KILL]
    assert plan.due(23, 1) == []
    assert [one.sentence for one in plan.due(float("inf"), 1)] == [
        "coupons: started again",
        "red-packets: joins, from the first message",
    ]
    assert plan.due(float("inf"), 3) == []


# --- latencies


def test_a_value_lies_in_the_bin_that_begins_at_or_below_it():
    histogram = make_histogram("x", [0, 0.9, 1, 4.99, 5, 149.9, 150, 9_999])
    found = {EDGES_MS[index]: count for index, count in enumerate(histogram.counts) if count}
    assert found == {0: 2, 1: 1, 3: 1, 5: 1, 100: 1, 150: 1, 5_000: 1}
    assert histogram.total == 8
    assert (histogram.percentile_ms(50), histogram.percentile_ms(100)) == (5, 9_999)
    assert sum(histogram.shares()) == pytest.approx(100)


def test_a_clock_that_ran_backwards_counts_as_no_time():
    assert make_histogram("x", [-3.0]).counts[0] == 1


def test_an_empty_histogram_has_no_percentiles_and_no_shares():
    empty = make_histogram("x", [])
    assert (empty.percentile_ms(50), empty.total, set(empty.shares())) == (None, 0, {0.0})
    assert list(used_bins([empty])) == []


def test_bins_that_no_histogram_uses_are_left_out_at_both_ends():
    bins = used_bins([make_histogram("a", [2, 3]), make_histogram("b", [250])])
    assert [bin_label(index) for index in bins][:2] == ["2 ms", "3 ms"]
    assert bin_label(bins[-1]) == "200 ms"
    assert bin_label(EDGES_MS.index(1_500)) == "1.5 s"


# --- funnel


COUNTS = [
    StepCount(20_000, "registered", 9, 2),
    StepCount(10_000, "registered", 10, 1),
    StepCount(10_000, "sms", 10, 1),
    StepCount(20_000, "sms", 4, 0),
    StepCount(20_000, "unreadable", 3, 0),
]


def test_a_funnel_has_a_row_for_each_minute_by_time():
    first, second = make_funnel(COUNTS)
    assert (first.minute_ms, first.users["registered"], first.users["sms"], first.late, first.unreadable) == (
        10_000,
        10,
        10,
        1,
        0,
    )
    assert (second.users["registered"], second.users["sms"], second.users["push"], second.late) == (9, 4, 0, 2)
    assert second.unreadable == 3
    assert make_funnel([]) == []


def test_totals_are_compared_step_by_step():
    totals = funnel_totals(make_funnel(COUNTS))
    assert totals == {"registered": 19, "sms": 14, "push": 0, "coupons": 0, "red-packets": 0}
    assert compare_totals(totals, {"registered": 19, "sms": 14}) == []
    assert compare_totals(totals, {"registered": 19, "sms": 15, "push": 1}) == [
        "The funnel has 14 users at step 'sms' instead of 15.",
        "The funnel has 0 users at step 'push' instead of 1.",
    ]
