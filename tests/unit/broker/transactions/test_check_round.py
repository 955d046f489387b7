"""Decisions about half messages: check rounds, copies, and ends that wait for their op message."""

from __future__ import annotations

import pytest

from skyrocket.broker.transactions.check_round import (
    CheckDecision,
    CheckProgress,
    CheckRound,
    CheckRules,
    HalfCopies,
    PendingOps,
    end_is_too_late,
    immunity_ms,
)
from skyrocket.broker.transactions.records import HalfMessage
from skyrocket.protocol.message.record import Record

NOW_MS = 1_000_000_000
RULES = CheckRules.of(timeout_ms=6_000, checks_max=15, reserved_hours=72)


def a_half(age_ms: int = 10_000, offset: int = 0, stored_ms: int = 0, **properties: str) -> HalfMessage:
    record = Record("half", b"", queue_offset=offset, born_timestamp=NOW_MS - age_ms, store_timestamp=stored_ms)
    return HalfMessage(record, {name.upper(): value for name, value in properties.items()})


def a_round(half: int = 0, op: int = 0, half_end: int = 10) -> CheckRound:
    return CheckRound(RULES, NOW_MS, CheckProgress(half, op), half_end)


# --- decisions about one half message


@pytest.mark.parametrize(
    ("half", "decision"),
    [
        pytest.param(a_half(6_000), CheckDecision.WAIT, id="as old as the timeout"),
        pytest.param(a_half(6_001), CheckDecision.CHECK, id="older than the timeout"),
        pytest.param(a_half(0), CheckDecision.WAIT, id="born now"),
        pytest.param(a_half(-1), CheckDecision.CHECK, id="born in the future, by a clock that is ahead"),
        pytest.param(a_half(stored_ms=NOW_MS), CheckDecision.WAIT, id="stored since the round began"),
        pytest.param(a_half(stored_ms=NOW_MS - 1), CheckDecision.CHECK, id="stored just before it"),
        pytest.param(a_half(transaction_check_times="14"), CheckDecision.CHECK, id="checked 14 times"),
        pytest.param(a_half(transaction_check_times="15"), CheckDecision.GIVE_UP, id="checked 15 times"),
        pytest.param(
            a_half(transaction_check_times="15", stored_ms=NOW_MS),
            CheckDecision.WAIT,
            id="checked a moment ago, for the last time",
        ),
        pytest.param(a_half(transaction_check_times="often"), CheckDecision.CHECK, id="check times are no number"),
        pytest.param(a_half(72 * 3_600_000), CheckDecision.CHECK, id="as old as files get"),
        pytest.param(a_half(72 * 3_600_000 + 1), CheckDecision.GIVE_UP, id="older than files get"),
        pytest.param(a_half(20_000, check_immunity_time_in_seconds="20"), CheckDecision.LATER, id="immune"),
        pytest.param(a_half(20_001, check_immunity_time_in_seconds="20"), CheckDecision.CHECK, id="immunity is over"),
        pytest.param(a_half(6_001, check_immunity_time_in_seconds="soon"), CheckDecision.CHECK, id="immunity is no number"),
        pytest.param(a_half(100, check_immunity_time_in_seconds="0"), CheckDecision.CHECK, id="immunity of 0 seconds"),
        pytest.param(
            a_half(9_000, check_immunity_time_in_seconds="20", tran_prepared_queue_offset="3"),
            CheckDecision.ENDED,
            id="immune, and ended",
        ),
        pytest.param(
            a_half(9_000, check_immunity_time_in_seconds="20", tran_prepared_queue_offset="4"),
            CheckDecision.LATER,
            id="immune copy",
        ),
    ],
)
def test_the_decision_depends_on_age_checks_and_immunity(half: HalfMessage, decision: CheckDecision):
    walk = a_round()
    walk.record_ended([3])
    assert walk.decide(half, NOW_MS) is decision


def test_an_end_after_the_immunity_counts_only_as_answer_to_a_check():
    assert end_is_too_late("20", 20_001, from_check=False, timeout_ms=6_000)
    assert not end_is_too_late("20", 20_001, from_check=True, timeout_ms=6_000)
    assert not end_is_too_late("20", 20_000, from_check=False, timeout_ms=6_000)
    assert not end_is_too_late("20", 20_001, from_check=False, timeout_ms=30_000), (
        "immunity lasts at least as long as the timeout"
    )
    assert not end_is_too_late(None, 10**9, from_check=False, timeout_ms=6_000), "without immunity no end is too late"
    assert immunity_ms("7", 6_000) == 7_000


# --- rounds


def test_a_round_skips_half_messages_that_have_ended():
    walk = a_round()
    walk.record_ended([0, 1, 2, 5])
    assert walk.pending(64) == (3, 2)
    walk.skip_halves(5)
    assert walk.pending(64) == (6, 4)
    walk.skip_halves(10)
    assert walk.pending(64) == (10, 0)
    assert walk.progress.half == 10


def test_a_round_ends_where_the_queue_ended_when_it_began():
    walk = a_round(half=4, half_end=4)
    assert walk.pending(64) == (4, 0)
    assert walk.progress == CheckProgress(4, 0)


def test_an_op_message_is_done_when_its_half_messages_and_all_op_messages_before_it_are():
    walk = a_round(half=10, op=5, half_end=20)
    walk.add_op(5, [10, 11])
    walk.add_op(6, [14])
    walk.add_op(7, [3])  # long done
    assert walk.progress == CheckProgress(10, 5)
    assert walk.pending(64) == (12, 2)
    assert walk.progress == CheckProgress(12, 6)
    walk.skip_halves(14)
    assert walk.pending(64) == (15, 5)
    assert walk.progress == CheckProgress(15, 8)


def test_an_unreadable_op_message_does_not_stop_the_progress():
    walk = a_round(op=5)
    walk.add_op(8, [])
    walk.skip_ops(10)
    assert walk.next_op == 10
    assert walk.progress.op == 10


def test_an_op_message_in_doubt_ends_nothing_by_itself_and_is_done_with_its_half_messages():
    walk = a_round(half=10, op=5, half_end=13)
    assert not walk.has_doubts
    walk.add_op(5, [9, 10, 12], doubtful_place=700)
    walk.add_op(6, [10, 13], doubtful_place=900)
    assert walk.pending(64) == (10, 3)
    assert [walk.doubtful_op(half) for half in range(9, 14)] == [None, 700, None, 700, None], "the first one, within the round"
    walk.record_ended([12])
    walk.skip_halves(12)
    assert walk.pending(64) == (13, 0)
    assert walk.progress == CheckProgress(13, 6)


def test_an_op_message_without_a_doubt_ends_what_another_one_left_in_doubt():
    walk = a_round()
    walk.add_op(0, [0], doubtful_place=700)
    walk.add_op(1, [0])
    assert walk.pending(64) == (1, 9)


def test_ends_outside_the_round_are_left_to_a_later_round():
    walk = a_round(half=10, half_end=12)
    walk.add_op(0, [9, 10, 11, 12, 10**15])
    assert walk.pending(64) == (12, 0)
    assert walk.progress == CheckProgress(12, 0), "what the op message names at 12 is not done"


def test_a_round_takes_note_of_ends_while_it_is_under_way():
    walk = a_round()
    assert walk.pending(3) == (0, 3)
    walk.record_ended([1])
    assert walk.pending(3) == (0, 1)


# --- copies


def test_an_end_under_any_offset_of_a_message_ends_its_newest_copy():
    copies = HalfCopies()
    copies.add(3, 10)
    copies.add(10, 20)
    assert copies.offsets_of([3, 4]) == [3, 20, 4]
    assert copies.offsets_of([20]) == [20]
    assert not copies.is_over(3)
    copies.record_ended([3, 20])
    assert copies.is_over(3)
    assert copies.is_over(20)
    assert not copies.is_over(4)


def test_messages_without_copies_are_not_remembered():
    copies = HalfCopies()
    copies.add(3, 10)
    copies.record_ended([4])
    assert not copies.is_over(4)
    assert copies.offsets_of([4]) == [4]


def test_the_oldest_copies_are_forgotten():
    copies = HalfCopies(copies_max=2)
    for offset in range(5):
        copies.add(offset, offset + 100)
    assert copies.offsets_of([0]) == [0]
    assert copies.offsets_of([4]) == [4, 104]


# --- ends that wait for their op message


def test_ends_wait_until_they_fill_an_op_message():
    ops = PendingOps()
    assert ops.fill_up([1, 2], 6) is None
    ops.add([1, 2], NOW_MS)
    assert ops.fill_up([3], 6) == [1, 2, 3]
    ops.clear()
    assert not ops


def test_ends_wait_no_longer_than_the_interval_of_the_first():
    ops = PendingOps()
    assert ops.due_ms(NOW_MS, 3_000) is None
    ops.add([1], NOW_MS)
    ops.add([2], NOW_MS + 2_000)
    assert ops.due_ms(NOW_MS + 2_500, 3_000) == NOW_MS + 3_000
    assert ops.due_ms(NOW_MS - 50_000, 3_000) == NOW_MS - 47_000, "by a clock that was set back"
    ops.clear()
    ops.add([3], NOW_MS + 9_000)
    assert ops.due_ms(NOW_MS + 9_000, 3_000) == NOW_MS + 12_000
