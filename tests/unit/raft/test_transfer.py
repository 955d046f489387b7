"""Leadership moves to another node on request, and to a preferred one by itself."""

from __future__ import annotations

import pytest

from skyrocket.protocol.bodies.dledger import (
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerCode,
    PushType,
    VoteResponse,
    VoteResult,
)
from skyrocket.raft.config import GroupConfig
from skyrocket.raft.errors import GroupError
from skyrocket.raft.ports import HardState, Role
from tests.unit.raft.transcript import Steps, entry, log_of, push

TRANSFER = "LeadershipTransfer"


def leader() -> Steps:
    steps = Steps(HardState(2, None), log_of(5, commit=4))
    steps.lead()
    for peer in ("n1", "n2"):
        steps.pushed(peer, "COMPARE")
        steps.push_answer(peer, "COMPARE", index=4, count=1, end_index=4)
    return steps


def order(to: str, term: int = 2, transfer: str = "n0", end: int = -1) -> LeadershipTransferRequest:
    return LeadershipTransferRequest(
        term=term, transfer_id=transfer, transferee_id=to, local_id="x", leader_id=transfer, take_leadership_ledger_index=end
    )


def test_leader_asks_the_node_and_takes_no_messages_meanwhile():
    steps = leader()
    assert steps.ask(order("n1")) == ["SUCCESS term 2 to n1"]
    assert not steps.node.can_propose
    steps.answer("n1", TRANSFER, LeadershipTransferResponse(code=LedgerCode.TAKE_LEADERSHIP_FAILED, term=2))
    assert steps.node.can_propose


def test_tool_gets_the_result():
    steps = leader()
    steps.ask(order("n1"))
    assert steps.answer("n1", TRANSFER, LeadershipTransferResponse(term=3)) == ["reply SUCCESS term 3"]


def test_leader_takes_messages_again_when_the_node_does_not_answer():
    steps = leader()
    steps.ask(order("n1"))
    assert "reply TIMEOUT term 2" in steps.tick(3_001)
    assert steps.node.can_propose


def test_leader_that_is_elected_again_before_the_node_answers_takes_messages_in_the_new_term():
    steps = leader()
    steps.ask(order("n1"))
    steps.answer("n2", "HeartBeat", HeartBeatResponse(code=LedgerCode.EXPIRED_TERM, term=3))
    assert steps.node.role is Role.CANDIDATE
    steps.tick(1_000)
    said = steps.answer("n2", "Vote", VoteResponse(vote_result=VoteResult.ACCEPT, term=steps.node.term))
    assert steps.node.role is Role.LEADER
    assert f"reply TERM_CHANGED term {steps.node.term}" in said
    assert steps.node.can_propose


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (order("n9"), "UNKNOWN_MEMBER"),
        (order("n1", term=1), "INCONSISTENT_TERM"),
        (order("n0"), "UNEXPECTED_ARGUMENT"),
        (order("n1", transfer="n2"), "UNEXPECTED_ARGUMENT"),
    ],
)
def test_impossible_transfer_is_refused(request_: LeadershipTransferRequest, code: str):
    assert leader().ask(request_)[-1].startswith(f"reply {code}")


def test_second_transfer_is_refused():
    steps = leader()
    steps.ask(order("n1"))
    assert steps.ask(order("n2"))[-1].startswith("reply LEADER_TRANSFERRING")


def test_node_that_is_far_behind_is_refused():
    steps = leader()
    steps.node._core.ledger.end = 2_000
    assert steps.ask(order("n1"))[-1].startswith("reply FALL_BEHIND_TOO_MUCH")


def test_transferee_asks_for_votes_in_the_next_term_at_once():
    steps = Steps(HardState(2, "n1"), log_of(5))
    steps.follow("n1", 2)
    said = steps.ask(order("n0", transfer="n1", end=4))
    assert said[0] == "persist term 3 vote n0"
    assert "VOTE term 3 end 1/4 to n1" in said
    said = steps.answer("n2", "Vote", VoteResponse(vote_result=VoteResult.ACCEPT, term=3))
    assert "reply SUCCESS term 3" in said
    assert steps.node.role is Role.LEADER


def test_transferee_waits_for_the_last_entries():
    steps = Steps(HardState(2, "n1"), log_of(5))
    steps.match("n1", 2)
    assert steps.ask(order("n0", transfer="n1", end=5)) == []
    assert "VOTE term 3 end 2/5 to n1" in steps.ask(push(PushType.APPEND, [entry(5, term=2)], "n1", 2))


def test_transferee_that_does_not_catch_up_gives_up_after_a_second():
    steps = Steps(HardState(2, "n1"), log_of(5))
    steps.follow("n1", 2)
    steps.ask(order("n0", transfer="n1", end=9))
    assert steps.tick(1_000) == ["reply TAKE_LEADERSHIP_FAILED term 2"]


def test_transferee_obeys_its_leader_only():
    steps = Steps(HardState(2, "n1"))
    steps.follow("n1", 2)
    assert steps.ask(order("n0", transfer="n2"))[-1].startswith("reply INCONSISTENT_LEADER")


def test_preferred_leader_that_is_alive_gets_the_leadership():
    config = GroupConfig(group="g", self_id="n0", peer_ids=("n0", "n1", "n2"), preferred_leader_ids=("n2",))
    steps = Steps(HardState(2, None), log_of(5, commit=4), config)
    steps.lead()
    assert "SUCCESS term 2 to n2" not in steps.tick(1_000)
    steps.answer("n2", "HeartBeat", HeartBeatResponse())
    steps.pushed("n2", "COMPARE")
    steps.push_answer("n2", "COMPARE", index=4, count=1, end_index=4)
    assert "SUCCESS term 2 to n2" in steps.tick(1_000)
    assert steps.node.transferee == "n2"


@pytest.mark.parametrize("peers", [("n1", "n2"), ("n0", "n1", "n1")])
def test_group_that_contradicts_itself_is_refused(peers: tuple[str, ...]):
    with pytest.raises(GroupError, match=r"n0|n1"):
        GroupConfig(group="g", self_id="n0", peer_ids=peers)
