"""Each rule of the advice: when it speaks, what its evidence is, and when it is silent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from skyrocket.doctor.backlog.look import ClusterLook, MemberLook, QueueLook
from skyrocket.doctor.backlog.measure import measure
from skyrocket.doctor.backlog.rules import RULES, BacklogFinding, find_advice
from skyrocket.report.parts import Severity
from tests.unit.doctor.backlog.looks import HOUR_MS, NOW_MS, at, cluster, member

BUSY = [at(0, 100, 200), at(1, 100, 200)]  # ten seconds ago


def advice(now: ClusterLook, before: list[QueueLook] | None = None) -> list[BacklogFinding]:
    earlier = None if before is None else cluster(NOW_MS - 10_000, before, *now.groups[0].members)
    return find_advice(measure(earlier, now), now.reserved_ms)


def found(
    rule: str, queues: list[QueueLook], members: Sequence[MemberLook], before: list[QueueLook] | None = None
) -> BacklogFinding:
    matching = [one for one in advice(cluster(NOW_MS, queues, *members), before) if one.rule == rule]
    assert len(matching) == 1, [one.rule for one in advice(cluster(NOW_MS, queues, *members), before)]
    return matching[0]


def rules_of(queues: list[QueueLook], members: Sequence[MemberLook], before: list[QueueLook] | None = None) -> list[str]:
    return [one.rule for one in advice(cluster(NOW_MS, queues, *members), before)]


def test_a_group_that_keeps_up_gets_no_advice():
    assert rules_of([at(0, 200, 200), at(1, 300, 300)], [member("m1", 0), member("m2", 1)], BUSY) == []


def test_an_empty_cluster_gets_no_advice():
    assert find_advice([], {}) == []
    assert rules_of([], []) == []


def test_no_member():
    finding = found("no-member", [at(0, 0, 50)], [])
    assert finding.severity is Severity.PROBLEM
    assert finding.evidence == "50 messages wait in 1 topic."


def test_expired():
    finding = found("expired", [at(0, 10, 500, first=100), at(1, 200, 500, first=100)], [member("m", 0, 1)])
    assert finding.evidence.startswith("90 messages")


def test_expiring_when_the_backlog_lasts_longer_than_messages_are_kept():
    slow = [at(0, 0, 2_000_000, age_ms=71 * HOUR_MS)]
    finding = found("expiring", slow, [member("m", 0)])
    assert "2 d 23 h" in finding.evidence
    assert "3 d" in finding.evidence
    quick = [at(0, 99_990, 100_000, age_ms=70 * HOUR_MS)]
    assert "expiring" not in rules_of(quick, [member("m", 0)], [at(0, 0, 100_000)]), "drained within a second"
    assert "expiring" not in rules_of([at(0, 0, 10, age_ms=HOUR_MS)], [member("m", 0)])


def test_differing_subscriptions():
    finding = found("differing-subscriptions", [at(0, 0, 0)], [member("m1", 0, tags="a"), member("m2", 1, tags="b")])
    assert "m1: %RETRY%coupons (*), orders (a)" in finding.evidence
    silent = [member("m1", 0, tags="a"), member("m2", error="no answer")]
    assert "differing-subscriptions" not in rules_of([at(0, 0, 0)], silent)


def test_a_stuck_member():
    members = [member("m1", 0, cached=32), member("m2", 1)]
    finding = found("stuck-member", [at(0, 100, 250), at(1, 150, 200)], members, BUSY)
    assert "Member m1 of group 'coupons' is stuck" in finding.sentence
    assert (
        finding.evidence
        == "1 queue with 150 waiting messages; it has pulled 32 messages that it has not finished; 10 s between the looks."
    )
    soon = find_advice(measure(cluster(NOW_MS - 9_000, BUSY, *members), cluster(NOW_MS, [at(0, 100, 250)], *members)), {})
    assert [one.rule for one in soon if "member" in one.rule] == ["halted-member"], "a handler may take nine seconds"
    one_moves = [at(0, 100, 250), at(1, 150, 200)]
    assert "stuck-member" not in rules_of(one_moves, [member("m1", 0, 1)], BUSY), "it works on its other queue"
    assert "stuck-member" not in rules_of(one_moves, [member("m1", 0), member("m2", 1)]), "one look cannot tell"


def test_a_member_that_has_not_committed_yet_or_got_its_first_message_now_is_not_stuck():
    before = cluster(NOW_MS - 10_000, [at(0, 100, 200)], member("m1", 0, at_offset=100))
    works = cluster(NOW_MS, [at(0, 100, 200)], member("m1", 0, at_offset=130))
    assert [one.rule for one in find_advice(measure(before, works), {})] == []
    idle = cluster(NOW_MS - 10_000, [at(0, 100, 100)], member("m1", 0, at_offset=100))
    got = cluster(NOW_MS, [at(0, 100, 101)], member("m1", 0, at_offset=100))
    assert [one.rule for one in find_advice(measure(idle, got), {})] == []


def test_a_queue_that_nobody_reads():
    finding = found("standing-queue", [at(0, 150, 200), at(1, 100, 200)], [member("m1", 0)], BUSY)
    assert "No member of group 'coupons' reads queue 1 at broker-a of orders" in finding.sentence
    unknown = [member("m1", 0), member("m2", error="no answer")]
    assert "standing-queue" not in rules_of([at(0, 150, 200), at(1, 100, 200)], unknown, BUSY)


def test_idle_members():
    finding = found("idle-member", [at(0, 200, 200)], [member("m1", 0), member("m2"), member("m3")], BUSY[:1])
    assert finding.sentence.startswith("2 members of group 'coupons' have no queue")
    assert finding.evidence == "Without a queue: m2, m3. With queues: 1."


def test_falling_behind_with_too_few_members_and_with_enough():
    queues = [at(0, 110, 400), at(1, 110, 400)]
    assert "Add members: there are 1 for 2 queues." in found("falling-behind", queues, [member("m1", 0, 1)], BUSY).sentence
    enough = found("falling-behind", queues, [member("m1", 0), member("m2", 1)], BUSY)
    assert "Every queue has a member already" in enough.sentence
    assert enough.evidence == "40/s produced, 2/s consumed, 580 messages wait."


def test_messages_under_way_are_no_backlog():
    steady = [at(0, 4_080, 4_100), at(1, 4_080, 4_100)]  # 796/s in, 800/s out, 40 messages under way
    assert rules_of(steady, [member("m1", 0, 1)], BUSY) == []
    growing = [at(0, 4_080, 4_110), at(1, 4_080, 4_110)]
    assert rules_of(growing, [member("m1", 0, 1)], [at(0, 100, 120), at(1, 100, 120)]) == []


def test_skewed():
    queues = [at(0, 0, 900), *(at(number, 0, 10) for number in range(1, 10))]
    finding = found("skewed", queues, [member("m1", *range(10))])
    assert "queue 0 of orders at broker-a has most of it" in finding.sentence
    assert finding.evidence.startswith("900 of 990 messages; 9.09 times the mean")
    assert "skewed" not in rules_of([at(0, 0, 90), *(at(number, 0, 0) for number in range(1, 10))], [member("m", *range(10))])


def test_silent_members_and_retries_and_draining():
    assert found("silent-member", [at(0, 0, 0)], [member("m1", error="it timed out")]).evidence == "it timed out"
    retries = [at(0, 5, 9, topic="%RETRY%coupons")]
    assert found("retries-wait", retries, [member("m1", 0)]).severity is Severity.INFORMATION
    draining = found("draining", [at(0, 190, 200)], [member("m1", 0)], BUSY[:1])
    assert "in 1.11 s nothing waits" in draining.sentence


def test_a_broadcasting_group_is_not_judged_by_its_queues():
    now = cluster(NOW_MS, [at(0, 0, 10)], member("m1"), member("m2", 0), broadcasting=True)
    assert not {"idle-member", "standing-queue"} & {one.rule for one in find_advice(measure(None, now), now.reserved_ms)}


def test_every_rule_has_its_test_and_problems_come_first():
    order = [Severity.PROBLEM, Severity.WARNING, Severity.INFORMATION]
    ranks = [order.index(rule.severity) for rule in RULES]
    assert ranks == sorted(ranks)
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("finding", advice(cluster(NOW_MS, [at(0, 10, 500, first=100)]), []))
def test_findings_are_sentences_with_evidence(finding: BacklogFinding):
    assert finding.sentence.endswith(".")
    assert finding.evidence.endswith(".")
