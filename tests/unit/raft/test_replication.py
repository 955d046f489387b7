"""What a leader sends its followers, and what it commits."""

from __future__ import annotations

import pytest

from skyrocket.protocol.bodies.dledger import HeartBeatRequest, HeartBeatResponse, LedgerCode
from skyrocket.raft.config import INFLIGHT_PUSHES_MAX, GroupConfig
from skyrocket.raft.ports import Expired, HardState, LogDurable, LogPoint, Proposed, Role, Send, StorageFailed, Unreachable
from skyrocket.raft.progress import FollowerProgress
from tests.unit.raft.transcript import Steps, log_of


def leader(count: int = 5, commit: int = 4, term: int = 1, **config: object) -> Steps:
    """The leader of term 2, with entries of term 1 and everything compared but not answered yet."""
    group = GroupConfig(group="g", self_id="n0", peer_ids=("n0", "n1", "n2"), **config)  # type: ignore[arg-type]
    steps = Steps(HardState(2, None), log_of(count, term, commit), group)
    steps.lead()
    for peer in ("n1", "n2"):
        if (peer, "COMPARE") in steps.sent:
            steps.pushed(peer, "COMPARE")
    return steps


def propose(steps: Steps, count: int = 1, *, durable: bool = True) -> list[str]:
    last = steps.node.end_index + count
    said = steps.feed(Proposed(last, (last + 1) * 60))
    if durable:
        said += steps.feed(LogDurable(LogPoint(steps.node.epoch, last)))
    return said


def test_equal_follower_gets_entries_without_truncation():
    steps = leader()
    assert steps.push_answer("n1", "COMPARE", index=4, count=1, end_index=4) == []
    assert propose(steps) == ["APPEND from 5, at most 500, to n1"]


@pytest.mark.parametrize(
    ("begin", "end", "next_"),
    [
        (0, 2, "COMPARE from 2, at most 1, to n1"),  # shorter: compare at its end
        (0, 6, "COMPARE from 3, at most 1, to n1"),  # another entry there: one before
        (-1, -1, "TRUNCATE from 0, at most 1, to n1"),  # empty: start with the first entry
        (9, 12, "TRUNCATE from 0, at most 1, to n1"),  # nothing in common
    ],
)
def test_unequal_follower_is_compared_elsewhere(begin: int, end: int, next_: str):
    steps = leader()
    assert steps.push_answer("n1", "COMPARE", 406, index=4, begin_index=begin, end_index=end) == [next_]


def test_follower_behind_the_leaders_first_entry_begins_with_that():
    steps = leader()
    steps.feed(Expired(3))
    answer = {"index": 4, "begin_index": 0, "end_index": 1}
    assert steps.push_answer("n1", "COMPARE", 406, **answer) == ["TRUNCATE from 3, at most 1, to n1"]


def test_longer_follower_is_truncated_and_then_appended_to():
    steps = leader()
    assert steps.push_answer("n1", "COMPARE", index=4, count=1, end_index=9) == ["TRUNCATE from 4, at most 1, to n1"]
    steps.pushed("n1", "TRUNCATE")
    steps.push_answer("n1", "TRUNCATE", index=4, count=1, end_index=4)
    assert steps.node.watermarks() == {"n1": 4, "n2": -1}


def test_comparison_is_repeated_after_an_error_and_after_a_silence():
    steps = leader()
    assert steps.push_answer("n1", "COMPARE", 500) == []
    assert "COMPARE from 4, at most 1, to n1" in steps.tick(500)
    steps.pushed("n1", "COMPARE")
    assert "COMPARE from 4, at most 1, to n1" in steps.tick(3_000)


def test_new_group_compares_its_first_entry():
    steps = leader(count=0, commit=-1)
    assert ("n1", "COMPARE") not in steps.sent
    assert propose(steps)[0] == "COMPARE from 0, at most 1, to n1"


def appending(commit: int = 4) -> Steps:
    steps = leader(commit=commit)
    for peer in ("n1", "n2"):
        steps.push_answer(peer, "COMPARE", index=4, count=1, end_index=4)
    return steps


def test_entries_are_pipelined_in_batches():
    steps = appending()
    propose(steps, 10)
    assert steps.pushed("n1", count=4) == ["APPEND from 9, at most 500, to n1"]
    assert steps.pushed("n1", count=6) == []
    assert propose(steps)[0] == "APPEND from 15, at most 500, to n1"


def test_unanswered_pushes_are_bounded():
    steps = appending()
    propose(steps, 2 * INFLIGHT_PUSHES_MAX)
    said = ["APPEND"]
    while said:
        said = steps.pushed("n1")
    assert len(steps.node._replication.peers["n1"].inflight) == INFLIGHT_PUSHES_MAX


def test_oldest_push_is_sent_again_after_a_second():
    steps = appending()
    propose(steps, 3)
    steps.pushed("n1", count=2)
    steps.pushed("n1", count=1)
    assert not any("APPEND" in line and "n1" in line for line in steps.tick(999))
    assert "APPEND from 5, at most 2, to n1" in steps.tick(1)


def test_entry_is_committed_when_a_majority_has_it_on_disk():
    steps = appending()
    propose(steps, durable=False)
    steps.pushed("n1")
    assert "commit 5" not in steps.push_answer("n1", "APPEND", index=5, count=1, end_index=5)
    assert steps.feed(LogDurable(LogPoint(0, 5))) == ["commit 5"]


def test_leader_counts_two_followers_without_itself():
    steps = appending()
    propose(steps, durable=False)
    for peer in ("n1", "n2"):
        steps.pushed(peer)
        said = steps.push_answer(peer, "APPEND", index=5, count=1, end_index=5)
    assert "commit 5" in said


def test_entries_of_a_former_term_are_committed_with_one_of_the_own_term():
    steps = Steps(HardState(2, None), log_of(5, term=1, commit=2))
    steps.lead()
    assert "propose a marker of term 2" in steps.feed(Unreachable("n2")) or steps.node.commit_index == 2
    steps.pushed("n1", "COMPARE")
    assert steps.push_answer("n1", "COMPARE", index=4, count=1, end_index=4) == []
    assert steps.node.commit_index == 2
    propose(steps)  # the marker
    steps.pushed("n1")
    assert "commit 5" in steps.push_answer("n1", "APPEND", index=5, count=1, end_index=5)


def test_marker_is_asked_for_only_if_something_is_uncommitted():
    for commit, wanted in ((4, False), (3, True)):
        steps = Steps(HardState(2, None), log_of(5, commit=commit))
        steps.tick(300)
        said = steps.answer("n1", "Vote", accept(steps))
        assert ("propose a marker of term 2" in said) is wanted


def accept(steps: Steps):
    from skyrocket.protocol.bodies.dledger import VoteResponse, VoteResult

    return VoteResponse(vote_result=VoteResult.ACCEPT, term=steps.node.term)


def test_idle_leader_repeats_its_commit_index():
    steps = appending()
    said = steps.tick(1_000)
    assert "COMMIT commit 4 to n1" in said


def test_new_commit_index_is_sent_soon():
    steps = appending()
    propose(steps)
    for peer in ("n1", "n2"):
        steps.pushed(peer)
        steps.push_answer(peer, "APPEND", index=5, count=1, end_index=5)
    assert "COMMIT commit 5 to n2" in steps.tick(20)


def test_follower_that_lost_its_disk_is_filled_again_although_nothing_is_written():
    steps = appending()
    steps.tick(1_000)
    said = steps.push_answer("n1", "PushEntry", end_index=-1, begin_index=-1)
    assert said == ["refuse: a follower has lost entries", "COMPARE from 4, at most 1, to n1"]
    assert steps.node.watermarks()["n1"] == -1


def test_follower_that_does_not_know_its_log_is_compared():
    steps = appending()
    steps.tick(1_000)
    assert steps.push_answer("n1", "PushEntry", 406, end_index=4) == ["COMPARE from 4, at most 1, to n1"]


def test_follower_whose_connection_closed_is_compared_after_a_pause():
    steps = appending()
    steps.feed(Unreachable("n1"))
    assert "COMPARE from 4, at most 1, to n1" in steps.tick(500)


@pytest.mark.parametrize("fields", [{"index": 6, "count": 1, "end_index": 6}, {"index": 5, "count": 3, "end_index": 7}])
def test_answer_about_other_entries_does_not_count(fields: dict[str, int]):
    steps = appending()
    propose(steps)
    steps.pushed("n1")
    assert steps.push_answer("n1", "APPEND", **fields)[0] == "refuse: impossible answer"
    assert (steps.node.watermarks()["n1"], steps.node.commit_index) == (4, 4)


def test_answer_of_another_kind_does_not_count():
    steps = appending()
    propose(steps)
    steps.pushed("n1")
    assert steps.answer("n1", "APPEND", HeartBeatResponse())[0] == "refuse: impossible answer"


def test_entries_that_are_gone_from_the_log_lead_to_a_comparison():
    steps = appending()
    propose(steps)
    steps.pushed("n1", count=0)
    assert "COMPARE from 5, at most 1, to n1" in steps.tick(500)


def test_binary_form_is_used_with_nodes_that_read_it_until_the_connection_closes():
    steps = appending()
    steps.answer("n1", "HeartBeat", HeartBeatResponse(binary_push=1))
    steps.answer("n2", "HeartBeat", HeartBeatResponse())
    assert propose(steps)[:2] == ["APPEND from 5, at most 500, to n1, binary", "APPEND from 5, at most 500, to n2"]
    steps.feed(Unreachable("n1"))
    assert "COMPARE from 5, at most 1, to n1" in steps.tick(500)


def test_leader_whose_disk_fails_leads_no_more():
    steps = appending()
    assert steps.feed(StorageFailed("fsync failed")) == ["refuse: storage failed", "CANDIDATE in term 2 under None"]
    assert not steps.node.can_propose
    assert steps.tick(60_000) == []
    assert steps.node.role is Role.CANDIDATE


def test_code_of_a_stranger_is_reported():
    steps = appending()
    steps.tick(2_001)
    said = steps.answer("n1", "HeartBeat", HeartBeatResponse(code=LedgerCode.UNKNOWN_GROUP))
    assert said == ["refuse: not for this node"]


def heartbeat_to(steps: Steps, peer: str) -> HeartBeatRequest:
    sent = [effect.message for effect in steps.effects if isinstance(effect, Send) and effect.to == peer]
    (heartbeat,) = [message for message in sent if isinstance(message, HeartBeatRequest)]
    return heartbeat


def test_copies_of_a_node_that_lost_its_disk_count_when_a_quorum_without_it_has_answered():
    steps = leader()
    steps.push_answer("n1", "COMPARE", index=4, count=1, end_index=4, learner=True)
    propose(steps)
    steps.pushed("n1")
    assert steps.push_answer("n1", "APPEND", index=5, count=1, end_index=5, learner=True) == []
    assert steps.node.commit_index == 4
    steps.tick(2_001)
    assert heartbeat_to(steps, "n1").admit is False
    steps.answer("n2", "HeartBeat", HeartBeatResponse())
    steps.tick(2_001)
    assert heartbeat_to(steps, "n1").admit is True
    assert "commit 5" in steps.push_answer("n1", "PushEntry", end_index=5)


def test_a_follower_that_answers_pushes_is_there_although_its_heartbeats_are_late():
    steps = appending()
    for _ in range(10):
        propose(steps)
        steps.pushed("n1")
        steps.tick(900)
        last = steps.node.end_index
        steps.push_answer("n1", "APPEND", index=last, count=1, end_index=last)
    assert steps.node.role is Role.LEADER
    steps.tick(6_001)
    assert steps.node.role is Role.CANDIDATE


def test_a_learner_of_a_group_without_entries_is_admitted():
    """A node that was late for the first election stayed a learner until a message came: no quorum without the leader."""
    steps = leader(0, -1)
    steps.tick(2_001)
    steps.answer("n2", "HeartBeat", HeartBeatResponse(learner=True))
    steps.tick(2_001)
    assert heartbeat_to(steps, "n2").admit is False, "n1 has not answered since"
    steps.answer("n1", "HeartBeat", HeartBeatResponse())
    steps.answer("n2", "HeartBeat", HeartBeatResponse(learner=True))
    steps.tick(2_001)
    assert heartbeat_to(steps, "n2").admit is True


def test_an_answer_from_before_a_follower_lost_its_disk_does_not_make_it_a_member():
    steps = leader()
    steps.tick(10)
    before = dict(steps.sent)
    steps.push_answer("n1", "COMPARE", index=4, count=1, end_index=4, learner=True)
    propose(steps)
    steps.pushed("n1")
    steps.sent.update({key: before[key] for key in before if key[1] == "HeartBeat"})
    steps.answer("n1", "HeartBeat", HeartBeatResponse())
    steps.push_answer("n1", "APPEND", index=5, count=1, end_index=5, learner=True)
    assert steps.node.commit_index == 4


@pytest.mark.parametrize("common", [-1, 0, 1, 499, 500, 700, 998])
def test_the_last_common_entry_is_found_in_few_comparisons_and_exactly(common: int):
    """A deposed leader with hundreds of entries of its own was compared hundreds of times, one entry back each time."""
    progress = FollowerProgress()
    index, comparisons = 999, 0
    while True:
        comparisons += 1
        following = progress.note_equal(index) if index <= common else progress.note_different(index, 0)
        if following is None or following == progress.equal_at:
            break
        index = following
    assert progress.equal_at == common
    assert comparisons <= 20


def test_a_follower_that_differs_far_back_is_cut_behind_the_last_common_entry():
    steps = leader(count=100, commit=40)
    steps.pushed("n1", "COMPARE")
    asked = [99]
    while True:
        is_equal = asked[-1] <= 42
        done = steps.push_answer(
            "n1", "COMPARE", 200 if is_equal else 406, index=asked[-1], count=1, begin_index=0, end_index=120
        )
        (what,) = [effect for effect in done if effect.endswith("to n1")]
        if what.startswith("TRUNCATE"):
            break
        asked.append(int(what.split()[2].rstrip(",")))
        steps.pushed("n1", "COMPARE")
    assert what == "TRUNCATE from 42, at most 1, to n1"
    assert len(asked) <= 14, asked
