"""What a follower does with pushes, and what it refuses."""

from __future__ import annotations

import pytest

from skyrocket.protocol.bodies.dledger import HeartBeatRequest, PushType
from skyrocket.raft import follower as follower_module
from skyrocket.raft.ledger import landing_position
from skyrocket.raft.ports import EntriesCompared, HardState, LogDurable, LogPoint, Reply, Unreachable
from tests.unit.raft.transcript import Steps, entry, log_of, push

APPEND, COMMIT, COMPARE, TRUNCATE = PushType.APPEND, PushType.COMMIT, PushType.COMPARE, PushType.TRUNCATE


def follower(count: int = 5, commit: int = -1, *, matched: bool = True, durable: bool = True) -> Steps:
    steps = Steps(HardState(1, "n1"), log_of(count, commit=commit), durable=durable)
    if matched:
        steps.match()
    else:
        steps.follow()
    return steps


def compare(steps: Steps, *, equal: bool) -> list[str]:
    """Answer the last comparison that the node asked for."""
    return steps.feed(EntriesCompared(steps.node._follower._compare_id, equal))


def test_next_entry_is_appended_and_acknowledged_when_it_is_durable():
    steps = follower(durable=False)
    said = steps.ask(push(APPEND, [entry(5)]))
    assert said == ["append 5-5", "reply SUCCESS index 5 count 1 end 5 after log 0/5"]


def test_batch_is_appended_at_once():
    steps = follower()
    said = steps.ask(push(APPEND, [entry(5), entry(6), entry(7)], commit=6))
    assert said == ["append 5-7", "commit 6", "reply SUCCESS index 5 count 3 end 7 after log 0/7"]


def test_append_without_comparison_is_inconsistent():
    steps = follower(matched=False)
    assert steps.ask(push(APPEND, [entry(5)])) == ["reply INCONSISTENT_STATE index 5 count 1 end 4"]


def test_later_entries_wait_for_the_one_before():
    steps = follower()
    assert steps.ask(push(APPEND, [entry(6)])) == []
    assert steps.ask(push(APPEND, [entry(6)])) == ["reply REPEATED_PUSH index 6 count 1 end 4"]
    assert [line for line in steps.ask(push(APPEND, [entry(5)])) if "append" in line] == ["append 5-5", "append 6-6"]


def test_waiting_entries_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch):
    for bound, value in (("WAITING_APPENDS_MAX", 2), ("WAITING_BYTES_MAX", 120)):
        with monkeypatch.context() as patch:
            patch.setattr(follower_module, bound, value)
            steps = follower()
            assert steps.ask(push(APPEND, [entry(6)])) == []
            assert steps.ask(push(APPEND, [entry(7)])) == []
            assert steps.ask(push(APPEND, [entry(8)])) == ["reply INCONSISTENT_STATE index 8 count 1 end 4"]


def test_entry_whose_predecessor_does_not_come_is_inconsistent_after_a_second():
    steps = follower()
    steps.ask(push(APPEND, [entry(7)]))
    assert steps.tick(999) == []
    assert steps.tick(1) == ["reply INCONSISTENT_STATE index 7 count 1 end 4"]


@pytest.mark.parametrize(("equal", "code"), [(True, "SUCCESS"), (False, "INCONSISTENT_STATE")])
def test_entry_that_is_there_already_is_compared(equal: bool, code: str):
    steps = follower()
    assert steps.ask(push(APPEND, [entry(3)])) == ["compare 3-3"]
    after = " after log 0/3" if equal else ""
    assert compare(steps, equal=equal) == [f"reply {code} index 3 count 1 end 4{after}"]


def test_comparison_tells_whether_the_entry_is_equal():
    steps = follower(matched=False)
    assert steps.ask(push(COMPARE, [entry(4)])) == ["compare 4-4"]
    assert compare(steps, equal=True) == ["reply SUCCESS index 4 count 1 end 4 after log 0/4"]
    assert steps.ask(push(COMPARE, [entry(9)])) == ["reply INCONSISTENT_STATE index 9 count 1 end 4"]


def test_truncation_cuts_behind_an_equal_entry():
    steps = follower(matched=False)
    assert steps.ask(push(TRUNCATE, [entry(2)], commit=2)) == ["compare 2-2"]
    assert compare(steps, equal=True) == ["truncate behind 2", "commit 2", "reply SUCCESS index 2 count 1 end 2 after log 1/2"]
    assert steps.ask(push(APPEND, [entry(3)]))[0] == "append 3-3"


def test_truncation_at_an_unequal_entry_starts_the_log_with_it():
    steps = follower(matched=False)
    steps.ask(push(TRUNCATE, [entry(0, body=b"other bytes!")]))
    assert compare(steps, equal=False)[:2] == ["reset log to index 0 at 0", "append 0-0"]


def test_empty_follower_starts_with_the_leaders_first_entry():
    steps = follower(0, matched=False)
    said = steps.ask(push(TRUNCATE, [entry(7)]))
    assert said == ["reset log to index 7 at 420", "append 7-7", "reply SUCCESS index 7 count 1 end 7 after log 1/7"]


@pytest.mark.parametrize(("index", "equal"), [(1, True), (2, False)])
def test_nothing_committed_is_truncated(index: int, equal: bool):
    steps = follower(5, commit=2, matched=False)
    steps.ask(push(TRUNCATE, [entry(index)]))
    said = compare(steps, equal=equal)
    assert said == ["refuse: truncation below the commit index", f"reply INCONSISTENT_STATE index {index} count 1 end 4"]
    assert "entries up to 2 are committed" in steps.effects[0].sentence  # type: ignore[union-attr]


def test_late_copy_of_a_truncation_cuts_nothing_that_was_acknowledged():
    steps = follower(5)
    steps.ask(push(APPEND, [entry(5)]))
    steps.ask(push(TRUNCATE, [entry(4)]))
    assert compare(steps, equal=True) == ["reply INCONSISTENT_STATE index 4 count 1 end 5"]


def test_commit_index_counts_as_far_as_the_log_is_the_leaders():
    steps = follower(5)
    assert steps.ask(push(COMMIT, [], commit=9)) == ["commit 4", "reply SUCCESS index None count 0 end 4"]
    unknown = follower(5, matched=False)
    assert unknown.ask(push(COMMIT, [], commit=3)) == ["reply INCONSISTENT_STATE index None count 0 end 4"]


@pytest.mark.parametrize("kind", [APPEND, COMPARE, TRUNCATE, COMMIT])
@pytest.mark.parametrize(("leader", "term", "code"), [("n1", 0, "EXPIRED_TERM"), ("n2", 1, "INCONSISTENT_LEADER")])
def test_only_the_leader_of_this_term_is_obeyed(kind: PushType, leader: str, term: int, code: str):
    steps = follower()
    said = steps.ask(push(kind, [] if kind is COMMIT else [entry(5, term=0)], leader, term, commit=4))
    assert said[-1].startswith(f"reply {code}")
    assert (steps.node.end_index, steps.node.commit_index) == (4, -1)


def test_push_of_a_higher_term_makes_a_follower_of_its_leader():
    steps = follower()
    said = steps.ask(push(COMPARE, [entry(4)], "n2", 3))
    assert said[:2] == ["persist term 3 vote n2", "FOLLOWER in term 3 under n2"]


@pytest.mark.parametrize(
    "entries",
    [
        [entry(5, term=2)],  # of a later term than the leader's
        [entry(5), entry(7)],  # a gap
        [entry(5, term=1), entry(6, term=0)],  # terms that fall
    ],
)
def test_entries_that_no_ledger_contains_are_refused(entries):
    said = follower().ask(push(APPEND, entries))
    assert said[0] == "refuse: impossible entry"
    assert said[1].startswith("reply UNEXPECTED_ARGUMENT")


def test_entry_with_a_wrong_size_is_refused():
    wrong = entry(5)
    wrong.size = 999
    assert follower().ask(push(APPEND, [wrong]))[0] == "refuse: impossible entry"


def test_entry_at_another_position_belongs_to_another_log():
    wrong = entry(5)
    wrong.pos += 8
    said = follower().ask(push(APPEND, [wrong]))
    assert said == ["refuse: impossible entry", "reply INCONSISTENT_STATE index 5 count 1 end 4"]


@pytest.mark.parametrize(("end", "size", "lands"), [(0, 60, 0), (932, 60, 932), (932, 85, 1_024), (1_000, 60, 1_024)])
def test_position_leaves_room_for_padding(end: int, size: int, lands: int):
    assert landing_position(end, size, 1_024) == lands


def test_stranger_gets_an_error_and_a_sentence():
    steps = follower()
    assert steps.ask(push(COMMIT, []), group="h") == ["refuse: other group", "reply UNKNOWN_GROUP index None count 0 end -1"]
    assert steps.ask(push(COMMIT, []), remote="n5") == [
        "refuse: not for this node",
        "reply UNKNOWN_MEMBER index None count 0 end -1",
    ]


def test_closed_connection_to_the_leader_ends_what_is_known_of_its_log():
    steps = follower()
    steps.feed(Unreachable("n1"))
    assert steps.ask(push(APPEND, [entry(5)])) == ["reply INCONSISTENT_STATE index 5 count 1 end 4"]


def test_node_that_lost_its_disk_says_so_until_its_leader_admits_it():
    steps = Steps(None)
    steps.ask(HeartBeatRequest(leader_id="n1", term=1, admit=False))
    (beat,) = [effect.message for effect in steps.effects if isinstance(effect, Reply)]
    assert beat.learner  # type: ignore[attr-defined]
    steps.ask(push(COMPARE, [entry(0)]))
    steps.ask(push(TRUNCATE, [entry(0)]))
    replies = [effect.message for effect in steps.effects if isinstance(effect, Reply)]
    assert [reply.learner for reply in replies] == [True]  # type: ignore[attr-defined]
    assert steps.node.is_learner
    assert steps.ask(HeartBeatRequest(leader_id="n1", term=1, admit=True))[0] == "persist term 1 vote n1"
    assert not steps.node.is_learner


def test_node_that_lost_its_disk_is_a_member_again_when_it_has_everything_of_an_apache_leader():
    steps = Steps(None, durable=False)
    steps.follow()
    steps.ask(push(COMPARE, [entry(1)]))
    steps.ask(push(TRUNCATE, [entry(0)]))
    steps.feed(LogDurable(LogPoint(1, 0)))
    assert steps.node.is_learner
    steps.ask(push(APPEND, [entry(1)]))
    assert steps.feed(LogDurable(LogPoint(1, 1))) == ["persist term 1 vote n1"]
    assert not steps.node.is_learner


def test_flush_that_began_before_a_truncation_says_nothing_of_new_entries():
    steps = follower(durable=False, matched=False)
    steps.feed(LogDurable(LogPoint(0, 4)))
    steps.ask(push(TRUNCATE, [entry(2)]))
    compare(steps, equal=True)
    steps.ask(push(APPEND, [entry(3), entry(4)]))
    steps.feed(LogDurable(LogPoint(0, 4)))
    assert steps.node._core.ledger.durable == 2
