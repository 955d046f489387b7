"""Elections by DLedger's rules.

    FOLLOWER ──no heartbeat──▶ CANDIDATE ──quorum of ACCEPT──▶ LEADER
        ▲                       │    ▲                            │
        └──heartbeat or push────┘    └──no quorum, higher term────┘

A candidate asks all nodes in rounds. The first round after a leader fell silent is in the old term: nodes that still hear the
leader say so, and the term does not rise. (DLedger has no other pre-vote.) `conclude_round` is the table of what follows.

Stricter than DLedger:
- Term and vote are durable before any message of that term leaves.
- A leader has voted for itself: a quorum of others makes a candidate that voted for another one ask in the next term. So a node
  that starts again and has voted for itself knows that it may have led that term, and lost its last entries. It asks in the next.
- A learner, which starts without its term file, may have acknowledged entries that it does not have any more. Its vote for a
  candidate with entries counts only if every node gives its vote: then the candidate has all that any other node has.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from skyrocket.protocol.bodies.dledger import VoteRequest, VoteResponse, VoteResult
from skyrocket.raft.core import Core, PendingRequest
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.ports import Role

R = VoteResult
NEVER = float("inf")
ROUNDS_BEFORE_SLOWER = 3  # in vain; then waits double, and again after as many
DOUBLED_MAX = 2
SLOW_VOTE_MS = 800  # waits grow to this; DLedger's own are longer from the start
SLOW_INTERVAL_MS = 400


class RoundResult(Enum):
    """What a candidate does after a round."""

    PASSED = "leader in this term"
    REVOTE_IMMEDIATELY = "ask again in this term, now"
    WAIT_TO_REVOTE = "ask again in this term, later"
    WAIT_TO_VOTE_NEXT = "ask in the next term, later"


class VoteRound(Struct):
    """The answers to one round. None: the node did not answer."""

    term: int
    deadline: float
    ids: set[int]
    results: dict[str, VoteResult | None]
    learners: set[str]
    """Nodes whose vote counts only if all nodes vote for the candidate."""
    term_seen: int


def is_decided(results: dict[str, VoteResult | None], members: int, learners: int = 0) -> bool:
    """Whether no further answer is waited for."""
    found = list(results.values())
    accepted = found.count(R.ACCEPT)
    quorum = members // 2 + 1
    if R.REJECT_ALREADY_HAS_LEADER in found or accepted >= quorum or len(results) == members:
        return True
    willing = accepted + found.count(R.REJECT_TERM_NOT_READY)
    if willing >= quorum:
        return True
    # A quorum has answered, and the rest cannot make a leader. DLedger waits for nodes that are dead here.
    return not learners and len(results) - found.count(None) >= quorum and willing + members - len(results) < quorum


def conclude_round(
    results: dict[str, VoteResult | None], members: int, *, higher_term: bool, learners: int = 0
) -> tuple[RoundResult, int]:
    """Return the result of a round, and an extra delay: 0, 1 (a vote interval) or 2 (as long as a leader may be silent)."""
    found = list(results.values())
    quorum = members // 2 + 1
    valid = len(found) - found.count(None) - found.count(R.UNKNOWN)
    larger_logs = found.count(R.REJECT_EXPIRED_LEDGER_TERM) + found.count(R.REJECT_SMALL_LEDGER_END_INDEX)
    accepted = found.count(R.ACCEPT)
    if higher_term:
        return RoundResult.WAIT_TO_VOTE_NEXT, 0
    if R.REJECT_ALREADY_HAS_LEADER in found:
        return RoundResult.WAIT_TO_REVOTE, 2
    if valid < quorum:
        return RoundResult.WAIT_TO_REVOTE, 0
    if valid - larger_logs < quorum:
        return RoundResult.WAIT_TO_REVOTE, 1
    if accepted >= quorum or accepted + learners == members:
        return RoundResult.PASSED, 0
    not_ready = found.count(R.REJECT_TERM_NOT_READY)
    if accepted + not_ready >= quorum or accepted + not_ready + learners == members:
        return RoundResult.REVOTE_IMMEDIATELY, 0
    return RoundResult.WAIT_TO_VOTE_NEXT, 1 if larger_logs else 0  # the longer log goes first; DLedger does not wait here


class Election:
    """Votes, and the candidate's rounds."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.term_to_take = -1
        """The term in which this node was asked to take the leadership over, or -1."""
        self._raise_next = core.vote == core.config.self_id
        self._known_term = core.term
        self._vain_rounds = 0  # since this node has followed or led
        self._next_round_at = core.now + self._interval()
        self.round: VoteRound | None = None

    # As a voter -------------------------------------------------------------------------------------------------------

    def answer_vote(self, handle: int, request: VoteRequest) -> None:
        result, term = self._decide(request)
        is_learners = result is R.ACCEPT and self._is_learners_vote(request)
        response = VoteResponse(
            group=request.group,
            local_id=request.local_id,
            remote_id=request.remote_id,
            leader_id=request.leader_id,
            code=request.code,
            term=term,
            vote_result=R.REJECT_ALREADY_VOTED if is_learners else result,
            learner=True if is_learners else None,
        )
        self._core.reply(handle, response)

    def _is_learners_vote(self, request: VoteRequest) -> bool:
        """Whether the vote counts only with all others. In a new group, whose logs are empty, every vote counts."""
        core = self._core
        if not core.learner or request.ledger_end_index < 0:
            return False
        core.refuse(
            request.leader_id,
            RefusalReason.LEARNER,
            f"Node '{core.config.self_id}' has lost its disk: its vote for '{request.leader_id}' counts only if all vote so.",
        )
        return True

    def _decide(self, request: VoteRequest) -> tuple[VoteResult, int]:
        """Apply DLedger's rules in their order; give the vote if all are passed."""
        core, candidate = self._core, request.leader_id
        if candidate is None or candidate not in core.config.peer_ids:
            core.refuse(
                candidate,
                RefusalReason.UNKNOWN_MEMBER,
                f"Candidate '{candidate}' is not a peer of group '{core.config.group}'. Add it to dLegerPeers of every node.",
            )
            return R.REJECT_UNKNOWN_LEADER, core.term
        if candidate == core.config.self_id:
            core.refuse(
                candidate,
                RefusalReason.SAME_ID,
                f"Another node of group '{core.config.group}' has the id '{candidate}' of this one. Change its dLegerSelfId.",
            )
            return R.REJECT_UNEXPECTED_LEADER, core.term
        if not core.is_possible_term(request.term, candidate) or core.storage_failure is not None:
            return R.UNKNOWN, core.term
        ledger = core.ledger
        if request.ledger_end_term < ledger.end_term:
            return R.REJECT_EXPIRED_LEDGER_TERM, core.term
        if request.ledger_end_term == ledger.end_term and request.ledger_end_index < ledger.end:
            return R.REJECT_SMALL_LEDGER_END_INDEX, core.term
        if request.term < core.term:
            return R.REJECT_EXPIRED_VOTE_TERM, core.term
        if request.term > core.term:
            # DLedger says REJECT_TERM_NOT_READY, raises its term, and gives the vote when it is asked again, 10 ms later.
            self.adopt_term(request.term)
        elif core.vote not in (None, candidate):
            return (R.REJECT_ALREADY_HAS_LEADER if core.leader is not None else R.REJECT_ALREADY_VOTED), core.term
        if request.term < ledger.end_term:
            return R.REJECT_TERM_SMALL_THAN_LEDGER, ledger.end_term
        if self._is_taking() and request.ledger_end_term == ledger.end_term and ledger.end >= request.ledger_end_index:
            return R.REJECT_TAKING_LEADERSHIP, core.term
        core.set_vote(candidate)
        if core.learner and request.ledger_end_index < 0:
            core.end_learning()  # logs are empty: the group is new
        if core.role is Role.CANDIDATE:
            self._delay_round()
        return R.ACCEPT, core.term

    # Terms ------------------------------------------------------------------------------------------------------------

    def adopt_term(self, term: int) -> None:
        """Enter a higher term that somebody spoke of, as a candidate that waits."""
        core = self._core
        core.set_term(term)
        self._raise_next = False
        self._vain_rounds += self.round is not None
        self.round = None
        core.change_role(Role.CANDIDATE, None)
        self._delay_round()

    def follow(self, term: int, leader: str) -> None:
        """Follow the leader of `term`, which has spoken to this node."""
        core = self._core
        if term > core.term:
            core.set_term(term)
        if core.vote is None:
            core.set_vote(leader)  # a node that lost its disk does not know whether it has voted in this term
        self._raise_next = False
        self._vain_rounds = 0
        self.round = None
        core.change_role(Role.FOLLOWER, leader)

    def stand(self) -> None:
        """Become a candidate in the current term, and ask at once."""
        core = self._core
        core.change_role(Role.CANDIDATE, None)
        self.round = None
        self._next_round_at = core.now

    def take_leadership(self, term: int) -> None:
        """Ask for votes in `term` now: the leader of the term before has handed over."""
        core = self._core
        self.term_to_take = term
        core.set_term(term)
        core.change_role(Role.CANDIDATE, None)
        self.round = None
        self._raise_next = False
        self._next_round_at = core.now
        self.tick()

    # As a candidate ---------------------------------------------------------------------------------------------------

    @property
    def wake_at(self) -> float:
        if self._core.storage_failure is not None:
            return NEVER
        return self._next_round_at if self.round is None else self.round.deadline

    def tick(self) -> None:
        core = self._core
        if core.role is not Role.CANDIDATE or core.storage_failure is not None:
            return
        if self.round is not None:
            if core.now >= self.round.deadline:
                self._conclude(self.round)
        elif core.now >= self._next_round_at:
            self._start_round()

    def _start_round(self) -> None:
        core = self._core
        if self._raise_next:
            # DLedger enters the known term first. Whoever spoke of it has voted in it already.
            core.set_term(max(core.term, self._known_term) + 1)
            self._raise_next = False
        own = R.ACCEPT
        if core.vote not in (None, core.config.self_id):
            own = R.REJECT_ALREADY_VOTED
        else:
            core.set_vote(core.config.self_id)
        wait = self._stretch(core.timings.vote_wait_ms + core.draw(0, core.timings.vote_interval_max_ms), SLOW_VOTE_MS)
        round_ = VoteRound(core.term, core.now + wait, set(), {core.config.self_id: own}, set(), core.term)
        if core.learner and core.ledger.end >= 0 and own is R.ACCEPT:
            round_.results[core.config.self_id] = R.REJECT_ALREADY_VOTED
            round_.learners.add(core.config.self_id)
        for peer in core.config.others:
            request = VoteRequest(
                leader_id=core.config.self_id,
                term=core.term,
                ledger_end_index=core.ledger.end,
                ledger_end_term=core.ledger.end_term,
            )
            round_.ids.add(core.send(peer, request, "VOTE"))
        self.round = round_
        if not core.config.others:
            self.note_durable()

    def note_durable(self) -> None:
        """Term and vote are durable. A node without peers is elected by that."""
        if self.round is not None and not self._core.config.others and self._core.state_durable >= self._core.state_token:
            self._conclude(self.round)

    def take_response(self, request_id: int, request: PendingRequest, response: VoteResponse) -> None:
        core, round_ = self._core, self.round
        if round_ is None or request_id not in round_.ids or request.term != core.term or core.role is not Role.CANDIDATE:
            return
        result = response.vote_result
        if result in (R.REJECT_EXPIRED_VOTE_TERM, R.REJECT_TERM_SMALL_THAN_LEDGER):
            if not core.is_possible_term(response.term, request.peer):
                result = R.UNKNOWN
            else:
                round_.term_seen = max(round_.term_seen, response.term)
        round_.results[request.peer] = result
        if response.learner and result is R.REJECT_ALREADY_VOTED and response.term == core.term:
            round_.learners.add(request.peer)
        if is_decided(round_.results, len(core.config.peer_ids), len(round_.learners)):
            self._conclude(round_)

    def note_unreachable(self, peer: str) -> None:
        round_ = self.round
        if round_ is not None and peer not in round_.results:
            round_.results[peer] = None
            if is_decided(round_.results, len(self._core.config.peer_ids), len(round_.learners)):
                self._conclude(round_)

    def _conclude(self, round_: VoteRound) -> None:
        core = self._core
        self.round = None
        higher = round_.term_seen > core.term
        members = len(core.config.peer_ids)
        result, delay = conclude_round(round_.results, members, higher_term=higher, learners=len(round_.learners))
        if result is RoundResult.PASSED and core.vote == core.config.self_id:
            self._vain_rounds = 0
            core.change_role(Role.LEADER, core.config.self_id)
            return
        self._vain_rounds += 1
        self._delay_round()
        if result is RoundResult.PASSED:
            self._raise_next = True
            self._next_round_at = core.now
        if result is RoundResult.WAIT_TO_VOTE_NEXT:
            self._raise_next = True
            self._known_term = max(self._known_term, round_.term_seen)
        if result is RoundResult.REVOTE_IMMEDIATELY:
            self._next_round_at = core.now + 10
        elif delay == 1:
            self._next_round_at += core.timings.vote_interval_max_ms
        elif delay == 2:
            self._next_round_at += core.timings.leader_silence_ms

    def _is_taking(self) -> bool:
        core = self._core
        return self.term_to_take == core.term and core.config.self_id in core.config.preferred_leader_ids

    def _interval(self) -> int:
        timings = self._core.timings
        if self._is_taking():
            return self._core.draw(timings.taking_interval_min_ms, timings.taking_interval_max_ms)
        return self._stretch(self._core.draw(timings.vote_interval_min_ms, timings.vote_interval_max_ms), SLOW_INTERVAL_MS)

    def _stretch(self, wait_ms: int, most_ms: int) -> int:
        """Wait longer after rounds in vain: a vote takes two syncs, and a slow disk may need more time than quick timings give.

        Otherwise each node would ask in the next term before the vote for another one has arrived, for as long as disks are slow.
        """
        doubled = min(self._vain_rounds // ROUNDS_BEFORE_SLOWER, DOUBLED_MAX)
        return max(wait_ms, min(wait_ms << doubled, most_ms))

    def _delay_round(self) -> None:
        self._next_round_at = self._core.now + self._interval()
