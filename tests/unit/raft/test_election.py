"""Votes and rounds follow DLedger's rules, and Raft's where DLedger's are loose."""

from __future__ import annotations

from itertools import pairwise

import pytest

from skyrocket.protocol.bodies.dledger import HeartBeatRequest, HeartBeatResponse, LedgerCode, VoteResponse, VoteResult
from skyrocket.raft.config import FAST_TIMINGS, GroupConfig
from skyrocket.raft.election import SLOW_INTERVAL_MS, SLOW_VOTE_MS, RoundResult, conclude_round
from skyrocket.raft.ports import HardState, Reply, Role, Send, Unreachable
from tests.unit.raft.transcript import Steps, log_of, vote

R = VoteResult


# Votes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "log", "request_", "said"),
    [
        (HardState(1, None), log_of(0), vote("n1", 1), ["persist term 1 vote n1", "reply ACCEPT term 1"]),
        (HardState(1, "n1"), log_of(0), vote("n1", 1), ["reply ACCEPT term 1"]),
        (HardState(1, "n2"), log_of(0), vote("n1", 1), ["reply REJECT_ALREADY_VOTED term 1"]),
        (HardState(2, None), log_of(0), vote("n1", 1), ["reply REJECT_EXPIRED_VOTE_TERM term 2"]),
        (HardState(2, None), log_of(5, term=2), vote("n1", 9, (1, 90)), ["reply REJECT_EXPIRED_LEDGER_TERM term 2"]),
        (HardState(2, None), log_of(5, term=2), vote("n1", 9, (2, 3)), ["reply REJECT_SMALL_LEDGER_END_INDEX term 2"]),
        (HardState(2, None), log_of(5, term=2), vote("n1", 2, (2, 4)), ["persist term 2 vote n1", "reply ACCEPT term 2"]),
        (HardState(1, None), log_of(0), vote("n9", 1), ["refuse: unknown member", "reply REJECT_UNKNOWN_LEADER term 1"]),
        (
            HardState(1, None),
            log_of(0),
            vote("n0", 1),
            ["refuse: two nodes with one id", "reply REJECT_UNEXPECTED_LEADER term 1"],
        ),
        (HardState(1, None), log_of(0), vote("n1", 2**63 - 1), ["refuse: impossible term", "reply UNKNOWN term 1"]),
    ],
)
def test_vote_is_decided_by_the_rules(state: HardState, log, request_, said: list[str]):
    assert Steps(state, log).ask(request_) == said


def test_vote_in_a_higher_term_is_given_at_once():
    steps = Steps(HardState(1, "n2"))
    steps.follow("n2", 1)
    said = steps.ask(vote("n1", 2))
    assert said == ["persist term 2 vote n1", "CANDIDATE in term 2 under None", "reply ACCEPT term 2"]


def test_stale_log_with_a_higher_term_disturbs_nobody():
    steps = Steps(HardState(1, "n1"), log_of(5))
    steps.follow("n1", 1)
    steps.ask(vote("n2", 99, (0, 3)))
    assert (steps.node.role, steps.node.term) == (Role.FOLLOWER, 1)


def test_follower_that_hears_its_leader_says_so():
    steps = Steps(HardState(1, "n2"))
    steps.follow("n2", 1)
    assert steps.ask(vote("n1", 1)) == ["reply REJECT_ALREADY_HAS_LEADER term 1"]


def test_vote_leaves_only_when_term_and_vote_are_durable():
    steps = Steps(durable=False)
    steps.ask(vote("n1", 3))
    (reply,) = [effect for effect in steps.effects if isinstance(effect, Reply)]
    assert reply.after.state == steps.node._core.state_token == 1


def test_taking_leadership_over_keeps_the_vote_of_a_preferred_leader():
    steps = Steps(
        HardState(1, "n1"), config=GroupConfig(group="g", self_id="n0", peer_ids=("n0", "n1", "n2"), preferred_leader_ids=("n0",))
    )
    steps.node._election.term_to_take = 2
    assert "reply REJECT_TAKING_LEADERSHIP term 2" in steps.ask(vote("n2", 2))


# Nodes that lost their disk ------------------------------------------------------------------------------------------


def test_node_without_term_file_votes_in_a_new_group():
    assert Steps(None).ask(vote("n1", 0)) == ["persist term 0 vote n1", "reply ACCEPT term 0"]


def test_vote_of_a_node_that_lost_its_disk_is_conditional_when_there_are_entries():
    said = Steps(None).ask(vote("n1", 3, (2, 10)))
    assert said[-1] == "reply REJECT_ALREADY_VOTED term 3 learner"
    assert "refuse: a node without its former votes" in said


def test_votes_of_learners_count_only_if_all_nodes_vote():
    learner = VoteResponse(vote_result=R.REJECT_ALREADY_VOTED, learner=True, term=1)
    steps = Steps(HardState(1, None), log_of(3))
    steps.tick(2_000)
    steps.answer("n1", "Vote", learner)
    assert steps.node.role is Role.CANDIDATE
    steps.answer("n2", "Vote", learner)
    assert steps.node.role is Role.LEADER


def test_term_file_that_is_older_than_the_log_makes_a_learner():
    assert Steps(HardState(1, "n1"), log_of(5, term=4)).node.is_learner


# Rounds --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "higher", "next_"),
    [
        ([R.ACCEPT, R.ACCEPT, None], False, (RoundResult.PASSED, 0)),
        ([R.ACCEPT, R.REJECT_EXPIRED_VOTE_TERM, R.ACCEPT], True, (RoundResult.WAIT_TO_VOTE_NEXT, 0)),
        ([R.REJECT_ALREADY_VOTED, R.REJECT_ALREADY_HAS_LEADER], False, (RoundResult.WAIT_TO_REVOTE, 2)),
        ([R.ACCEPT, None, None], False, (RoundResult.WAIT_TO_REVOTE, 0)),
        ([R.ACCEPT, R.UNKNOWN, R.UNKNOWN], False, (RoundResult.WAIT_TO_REVOTE, 0)),
        ([R.ACCEPT, R.REJECT_SMALL_LEDGER_END_INDEX, R.REJECT_EXPIRED_LEDGER_TERM], False, (RoundResult.WAIT_TO_REVOTE, 1)),
        ([R.ACCEPT, R.REJECT_TERM_NOT_READY, None], False, (RoundResult.REVOTE_IMMEDIATELY, 0)),
        ([R.ACCEPT, R.REJECT_ALREADY_VOTED, R.REJECT_ALREADY_VOTED], False, (RoundResult.WAIT_TO_VOTE_NEXT, 0)),
    ],
)
def test_round_ends_as_in_dledger(results: list[VoteResult | None], higher: bool, next_: tuple[RoundResult, int]):
    assert conclude_round({str(place): result for place, result in enumerate(results)}, 3, higher_term=higher) == next_


def test_candidate_is_elected_and_leads():
    steps = Steps(HardState(1, None), log_of(2, commit=1))
    assert steps.tick(299) == []
    assert steps.tick(1) == ["persist term 1 vote n0", "VOTE term 1 end 1/1 to n1", "VOTE term 1 end 1/1 to n2"]
    said = steps.answer("n2", "Vote", VoteResponse(vote_result=R.ACCEPT, term=1))
    assert said == [
        "LEADER in term 1 under n0",
        "HEART_BEAT term 1 to n1",
        "HEART_BEAT term 1 to n2",
        "COMPARE from 1, at most 1, to n1",
        "COMPARE from 1, at most 1, to n2",
    ]


def test_first_round_after_a_silence_is_in_the_old_term():
    steps = Steps(HardState(1, "n1"))
    steps.follow("n1", 1)
    said = steps.tick(6_001)
    assert said == ["CANDIDATE in term 1 under None", "VOTE term 1 end -1/-1 to n1", "VOTE term 1 end -1/-1 to n2"]
    steps.feed(Unreachable("n1"))
    steps.answer("n2", "Vote", VoteResponse(vote_result=R.REJECT_ALREADY_VOTED, term=1))
    assert steps.tick(300)[0] == "persist term 2 vote n0"


def test_isolated_candidate_does_not_raise_its_term():
    steps = Steps(HardState(4, None))
    for _ in range(20):
        steps.tick(1_000)
    assert steps.node.term == 4


def test_candidate_goes_beyond_a_higher_term():
    steps = Steps(HardState(1, None))
    steps.tick(300)
    for peer in ("n1", "n2"):
        steps.answer(peer, "Vote", VoteResponse(vote_result=R.REJECT_EXPIRED_VOTE_TERM, term=7))
    assert steps.tick(300)[0] == "persist term 8 vote n0"


def test_votes_of_a_former_round_do_not_count():
    steps = Steps(HardState(1, None))
    steps.tick(300)
    late = steps.sent["n1", "Vote"]
    steps.ask(vote("n2", 5))
    steps.sent["n1", "Vote"] = late
    assert steps.answer("n1", "Vote", VoteResponse(vote_result=R.ACCEPT, term=1)) == []
    assert steps.node.role is Role.CANDIDATE


def test_node_that_may_have_led_a_term_before_its_restart_asks_in_the_next():
    assert Steps(HardState(3, "n0")).tick(300)[0] == "persist term 4 vote n0"


def test_leader_has_voted_for_itself():
    steps = Steps(HardState(3, "n1"))
    steps.tick(300)
    for peer in ("n1", "n2"):
        steps.answer(peer, "Vote", VoteResponse(vote_result=R.ACCEPT, term=3))
    assert steps.node.role is Role.CANDIDATE
    assert steps.tick()[0] == "persist term 4 vote n0"


def test_requests_for_votes_wait_for_the_own_vote():
    steps = Steps(durable=False)
    steps.tick(300)
    assert [effect.after.state for effect in steps.effects if isinstance(effect, Send)] == [1, 1]


def test_a_group_of_one_elects_itself_when_its_vote_is_durable():
    steps = Steps(config=GroupConfig(group="g", self_id="n0", peer_ids=("n0",)))
    assert "LEADER in term 0 under n0" in steps.tick(300)


# Heartbeats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leader", "term", "said"),
    [
        ("n1", 1, ["reply SUCCESS term -1"]),
        ("n1", 0, ["reply EXPIRED_TERM term 1"]),
        ("n2", 1, ["refuse: two leaders in one term", "reply INCONSISTENT_LEADER term -1"]),
        ("n9", 1, ["refuse: unknown member", "reply UNKNOWN_MEMBER term 1"]),
        ("n0", 1, ["refuse: two nodes with one id", "reply UNEXPECTED_MEMBER term 1"]),
        ("n2", 2, ["persist term 2 vote n2", "FOLLOWER in term 2 under n2", "reply SUCCESS term -1"]),
    ],
)
def test_heartbeat_is_answered_by_the_rules(leader: str, term: int, said: list[str]):
    steps = Steps(HardState(1, "n1"))
    steps.follow("n1", 1)
    assert steps.ask(HeartBeatRequest(leader_id=leader, term=term)) == said


def test_leader_steps_down_when_a_follower_knows_a_higher_term():
    steps = Steps()
    steps.lead()
    said = steps.answer("n1", "HeartBeat", HeartBeatResponse(code=LedgerCode.EXPIRED_TERM, term=9))
    assert said == ["persist term 9 vote None", "CANDIDATE in term 9 under None"]


def test_leader_without_a_quorum_steps_down_in_its_term():
    steps = Steps()
    steps.lead()
    for _ in range(2):
        assert "HEART_BEAT term 0 to n1" in steps.tick(2_001)
    steps.tick(2_001)
    assert steps.node.role is Role.CANDIDATE


def test_leader_with_a_quorum_stays():
    steps = Steps()
    steps.lead()
    for _ in range(10):
        steps.tick(2_001)
        steps.answer("n1", "HeartBeat", HeartBeatResponse())
    assert steps.node.role is Role.LEADER


def test_fail_over_takes_less_than_a_second_with_our_timings():
    """A follower falls silent, waits as long as a leader may be silent, asks once in vain, and asks in the next term."""
    timings = FAST_TIMINGS
    longest = timings.leader_silence_ms + timings.vote_interval_max_ms + timings.heartbeat_ms
    assert longest < 1_000


def test_rounds_in_vain_become_slower_and_quick_again_under_a_leader():
    """On a slow disk each node asked in the next term before the vote for another one had arrived: no leader for minutes."""
    timings = FAST_TIMINGS
    config = GroupConfig(group="g", self_id="n0", peer_ids=("n0", "n1", "n2"), timings=timings)
    steps = Steps(HardState(1, None), config=config)

    def measure_rounds(count: int) -> list[float]:
        """Return the times between rounds in which n1 and n2 vote for each other, and the answers come at the last moment."""
        begun: list[float] = []
        for _ in range(count * 200):  # steps of 10 ms; a round takes under two seconds
            if any(line.startswith("VOTE") for line in steps.tick(10)):
                begun.append(steps.now)
            if len(begun) > count:
                break
        return [later - earlier for earlier, later in pairwise(begun)]

    waits = measure_rounds(12)
    shortest = timings.vote_wait_ms + timings.vote_interval_min_ms
    assert waits[0] <= shortest + 20
    assert waits[3] >= 2 * shortest
    assert waits[6:] == [waits[6]] * 6, "the waits are bounded"
    assert waits[6] <= SLOW_VOTE_MS + SLOW_INTERVAL_MS + 20
    steps.follow("n1", steps.node.term)
    assert measure_rounds(1)[0] <= shortest + 20
