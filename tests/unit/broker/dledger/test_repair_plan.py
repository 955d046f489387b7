"""What a node decides about damaged entries: whom it believes, when it asks again, and what it says."""

from __future__ import annotations

from skyrocket.broker.dledger.repair_plan import (
    ENTRIES_MAX,
    HAND_OVER_MS,
    LOST_RETRY_MS,
    RETRY_MS_MAX,
    ROUNDS_BEFORE_LEADING,
    Answer,
    NoEntry,
    RepairAction,
    RepairPlan,
    RepairVerdict,
)
from skyrocket.store.ledger.index_ranges import IndexRange

PEERS = ("n1", "n2")
ONE = IndexRange(5, 5)
FIVE, SIX, OTHER = (bytes([number]) * 60 for number in (5, 6, 99))


def conclude(
    plan: RepairPlan,
    *answers: Answer,
    asked: IndexRange = ONE,
    right: bytes | None = None,
    now_ms: float = 0,
    leads: bool = False,
) -> RepairVerdict:
    def fits(entry: bytes) -> bool | None:
        return None if right is None else entry == right

    return plan.conclude(asked, dict(zip(PEERS, answers, strict=True)), fits, now_ms, leads=leads)


def test_entries_on_which_all_answers_agree_are_restored():
    verdict = conclude(RepairPlan(PEERS), [FIVE, SIX], [FIVE, SIX], asked=IndexRange(5, 6))
    assert verdict == RepairVerdict(RepairAction.RESTORE, [FIVE, SIX], PEERS)


def test_one_node_is_enough_when_the_others_say_nothing():
    for other in (NoEntry.SILENT, NoEntry.NOT_LEADER, NoEntry.MISSING):
        assert conclude(RepairPlan(PEERS), other, [FIVE]) == RepairVerdict(RepairAction.RESTORE, [FIVE], ("n2",))


def test_only_what_was_asked_for_and_only_the_common_beginning_counts():
    asked = IndexRange(5, 6)
    assert conclude(RepairPlan(PEERS), [FIVE, SIX, OTHER], [FIVE, SIX, OTHER], asked=asked).entries == [FIVE, SIX]
    assert conclude(RepairPlan(PEERS), [FIVE], [FIVE, SIX], asked=asked).entries == [FIVE]
    assert conclude(RepairPlan(PEERS), [FIVE, SIX], [FIVE, OTHER], asked=asked).entries == [FIVE]


def test_header_crcs_that_nobody_fills_in_do_not_make_entries_differ():
    filled = FIVE[:36] + b"otherone" + FIVE[44:]
    assert conclude(RepairPlan(PEERS), [FIVE], [filled]).action is RepairAction.RESTORE


def test_of_different_answers_the_checksum_chooses_and_the_wrong_node_is_named():
    verdict = conclude(RepairPlan(PEERS), [OTHER], [FIVE], right=FIVE)
    assert (verdict.action, verdict.entries, verdict.sources) == (RepairAction.RESTORE, [FIVE], ("n2",))
    assert "wrong on n1" in verdict.sentence


def test_without_a_checksum_different_answers_are_not_written():
    plan = RepairPlan(PEERS)
    verdict = conclude(plan, [OTHER], [FIVE])
    assert (verdict.action, verdict.entries) == (RepairAction.DISPUTED, [])
    assert "n1 and n2 have different ones" in verdict.sentence
    assert plan.next_round([ONE], 9, LOST_RETRY_MS - 1) is None
    assert plan.next_round([ONE], 9, LOST_RETRY_MS) == ONE


def test_an_entry_that_no_node_has_is_lost_and_said_once():
    plan = RepairPlan(PEERS)
    first = conclude(plan, NoEntry.MISSING, NoEntry.MISSING)
    assert first.action is RepairAction.LOST
    assert "no node of the group has it" in first.sentence
    assert conclude(plan, NoEntry.MISSING, NoEntry.MISSING).sentence == ""


def test_a_silent_node_may_have_the_entry_so_it_is_not_lost():
    plan = RepairPlan(PEERS)
    verdict = conclude(plan, NoEntry.MISSING, NoEntry.SILENT)
    assert verdict.action is RepairAction.WAIT
    assert "n1 does not have it, n2 does not answer" in verdict.sentence


def test_retries_come_less_often_up_to_a_bound():
    plan, now_ms, pauses = RepairPlan(PEERS), 0.0, []
    for _ in range(12):
        assert plan.next_round([ONE], 9, now_ms) == ONE
        conclude(plan, NoEntry.SILENT, NoEntry.SILENT, now_ms=now_ms)
        assert plan.next_round([ONE], 9, now_ms) is None
        pauses.append(plan.pause_ms([ONE], now_ms))
        now_ms += pauses[-1]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (500, RETRY_MS_MAX)


def test_other_damage_is_asked_for_while_one_range_waits():
    plan = RepairPlan(PEERS)
    conclude(plan, NoEntry.SILENT, NoEntry.SILENT)
    assert plan.next_round([ONE, IndexRange(8, 9)], 20, 0) == (8, 9)


def test_only_confirmed_entries_are_asked_for_and_not_too_many():
    plan = RepairPlan(PEERS)
    assert plan.next_round([IndexRange(5, 9)], 4, 0) is None
    assert plan.next_round([IndexRange(5, 9)], 7, 0) == (5, 7)
    assert plan.next_round([IndexRange(0, 10**6)], 10**6, 0) == (0, ENTRIES_MAX - 1)
    assert plan.next_round([], 7, 0) is None


def test_a_leader_hands_over_to_nodes_that_answer_only_while_they_lead():
    plan = RepairPlan(PEERS)
    assert conclude(plan, NoEntry.NOT_LEADER, NoEntry.SILENT).action is RepairAction.WAIT
    verdict = conclude(plan, NoEntry.NOT_LEADER, NoEntry.SILENT, leads=True)
    assert (verdict.action, verdict.hand_over_to) == (RepairAction.HAND_OVER, ("n1",))
    assert conclude(plan, NoEntry.NOT_LEADER, NoEntry.SILENT, leads=True).action is RepairAction.WAIT
    assert conclude(plan, NoEntry.NOT_LEADER, NoEntry.SILENT, leads=True, now_ms=HAND_OVER_MS).action is RepairAction.HAND_OVER


def test_a_new_leader_waits_for_the_repair_and_not_for_ever():
    plan = RepairPlan(PEERS)
    assert plan.may_lead([])
    for _ in range(ROUNDS_BEFORE_LEADING):
        assert not plan.may_lead([ONE])
        conclude(plan, NoEntry.SILENT, NoEntry.SILENT)
    assert plan.may_lead([ONE])
    assert not plan.may_lead([ONE, IndexRange(8, 9)])


def test_entries_that_do_not_fit_here_are_said_and_asked_for_again_later():
    plan = RepairPlan(PEERS)
    assert "not the one" in plan.refuse(ONE, "Entry 5 is not the one.", 0).sentence
    assert plan.next_round([ONE], 9, RETRY_MS_MAX - 1) is None
    assert plan.next_round([ONE], 9, RETRY_MS_MAX) == ONE
