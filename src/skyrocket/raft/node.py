"""One node of a DLedger group as a pure state machine: an event and the time in, effects out."""

from __future__ import annotations

from skyrocket.protocol.bodies.dledger import (
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerCode,
    LedgerMessage,
    MetadataRequest,
    MetadataResponse,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
    VoteRequest,
    VoteResponse,
)
from skyrocket.raft.config import GroupConfig
from skyrocket.raft.core import Core, Draw
from skyrocket.raft.election import Election
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.follower import Follower
from skyrocket.raft.ledger import LedgerBounds
from skyrocket.raft.ports import (
    Effect,
    EntriesCompared,
    Event,
    Expired,
    HardState,
    LogDurable,
    PeerRequest,
    PeerResponse,
    Proposed,
    Pushed,
    Request,
    Response,
    Role,
    StateDurable,
    StorageFailed,
    Tick,
    Unreachable,
)
from skyrocket.raft.replication import BINARY_PUSH_VERSION, HEARTBEAT, LogReplication
from skyrocket.raft.transfer import TRANSFER, LeadershipTransfer

_RESPONSES: dict[type[LedgerMessage], type[LedgerMessage]] = {
    VoteRequest: VoteResponse,
    HeartBeatRequest: HeartBeatResponse,
    PushEntryRequest: PushEntryResponse,
    LeadershipTransferRequest: LeadershipTransferResponse,
    MetadataRequest: MetadataResponse,
}
_ANSWERS: dict[str, type[LedgerMessage]] = {
    "VOTE": VoteResponse,
    HEARTBEAT: HeartBeatResponse,
    TRANSFER: LeadershipTransferResponse,
    **{kind.value: PushEntryResponse for kind in PushType},
}


class RaftNode:
    """A node. It starts as a candidate, with what its disk says.

    `draw(low, high)` returns a random number. `state` is None for a node without a term file: a new one, or one that has lost
    its disk. The shell reports what is durable at the start as `LogDurable(LogPoint(0, end))`, after it has synced the log.
    """

    def __init__(self, config: GroupConfig, state: HardState | None, bounds: LedgerBounds, draw: Draw, now_ms: float) -> None:
        self._core = Core(config, state or HardState(learner=True), bounds, draw, now_ms)
        self._election = Election(self._core)
        self._follower = Follower(self._core)
        self._replication = LogReplication(self._core)
        self._transfer = LeadershipTransfer(self._core, self._election, self._replication)

    # What the shell may look at ---------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def leader(self) -> str | None:
        return self._core.leader

    @property
    def commit_index(self) -> int:
        return self._core.commit

    @property
    def end_index(self) -> int:
        return self._core.ledger.end

    @property
    def is_learner(self) -> bool:
        return self._core.learner

    @property
    def epoch(self) -> int:
        """The current epoch of the log, for `LogDurable`."""
        return self._core.ledger.epoch

    @property
    def can_propose(self) -> bool:
        """Whether the shell may append entries of the current term now."""
        core = self._core
        return core.role is Role.LEADER and self._transfer.transferee is None and core.storage_failure is None

    @property
    def transferee(self) -> str | None:
        return self._transfer.transferee

    def watermarks(self) -> dict[str, int]:
        """The last index that each follower has acknowledged, at the leader; for reports."""
        if self._core.role is not Role.LEADER:
            return {}
        return {peer: progress.match for peer, progress in self._replication.peers.items()}

    @property
    def wake_at(self) -> float:
        """The time of the next `Tick` that has anything to do."""
        role = self._core.role
        part = self._replication if role is Role.LEADER else self._follower if role is Role.FOLLOWER else self._election
        return min(part.wake_at, self._transfer.wake_at)

    # Steps ------------------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: float) -> list[Effect]:
        """Take one event and return what to do, in this order."""
        core = self._core
        core.now = now_ms
        before = (core.role, core.term, core.leader)
        match event:
            case Tick():
                self._tick()
            case Request(handle, message):
                self._take_request(handle, message)
            case Response(peer, request_id, message):
                self._take_response(peer, request_id, message)
            case Proposed(last_index, end_position):
                self._take_proposal(last_index, end_position)
            case LogDurable(point):
                if core.ledger.mark_durable(point):
                    self._follower.note_durable()
                    if core.role is Role.LEADER:
                        self._replication.update_commit()
            case StateDurable(token):
                core.state_durable = max(core.state_durable, token)
                self._election.note_durable()
            case Pushed(request_id, count):
                if core.role is Role.LEADER:
                    self._replication.note_pushed(request_id, count)
            case EntriesCompared(compare_id, equal):
                self._follower.take_comparison(compare_id, equal=equal)
            case Expired(begin_index):
                core.ledger.begin = max(core.ledger.begin, min(begin_index, core.ledger.end))
            case Unreachable(peer):
                self._note_unreachable(peer)
            case StorageFailed(reason, is_lasting):
                self._note_storage_failure(f"{reason}. Start it again." if is_lasting else f"{reason}.")
        if (core.role, core.term, core.leader) != before:
            self._note_role(before)
        return core.take_effects()

    def _note_role(self, before: tuple[Role, int, str | None]) -> None:
        """Tell the parts of the node. A new leader speaks at once."""
        core = self._core
        if core.role is not Role.FOLLOWER:
            self._follower.stop()
        if core.role is Role.LEADER and (before[0] is not Role.LEADER or before[1] != core.term):
            if core.learner:
                core.end_learning()  # a quorum with empty logs has elected it: the group is new
            self._replication.start_term()
            self._replication.update_commit()
        self._transfer.note_role()

    def _tick(self) -> None:
        core = self._core
        for request_id, request in core.expire_requests():
            self._transfer.note_no_answer(request_id, request)
        if core.role is Role.LEADER:
            if self._replication.tick():
                self._transfer.check_preferred()
            else:
                self._election.stand()
        elif core.role is Role.FOLLOWER:
            if self._follower.tick():
                self._transfer.tick()
            else:
                self._election.stand()
        self._election.tick()

    def _take_proposal(self, last_index: int, end_position: int) -> None:
        core, ledger = self._core, self._core.ledger
        assert core.role is Role.LEADER, "the shell checks can_propose"
        assert last_index > ledger.end
        if ledger.end < 0:
            ledger.begin = 0
        ledger.end, ledger.end_term, ledger.end_position = last_index, core.term, end_position
        self._replication.pump_all()

    def _note_unreachable(self, peer: str) -> None:
        core = self._core
        for request_id in [request_id for request_id, request in core.pending.items() if request.peer == peer]:
            self._transfer.note_no_answer(request_id, core.pending.pop(request_id))
        if core.role is Role.LEADER and peer in self._replication.peers:
            self._replication.note_unreachable(peer)
        elif core.role is Role.CANDIDATE:
            self._election.note_unreachable(peer)
        elif peer == core.leader:
            self._follower.stop()

    def _note_storage_failure(self, reason: str) -> None:
        core = self._core
        if core.storage_failure is None:
            core.storage_failure = reason
            core.refuse(
                None,
                RefusalReason.STORAGE,
                f"Node '{core.config.self_id}' takes no part in group '{core.config.group}' any more: {reason}",
            )
            if core.role is not Role.CANDIDATE:
                core.change_role(Role.CANDIDATE, None)

    # Requests of peers ------------------------------------------------------------------------------------------------

    def _take_request(self, handle: int, message: PeerRequest) -> None:
        core, config = self._core, self._core.config
        if message.remote_id != config.self_id or message.group != config.group:
            self._refuse_stray(handle, message)
        elif isinstance(message, VoteRequest):
            self._election.answer_vote(handle, message)
        elif isinstance(message, HeartBeatRequest):
            self._answer_heartbeat(handle, message)
        elif isinstance(message, PushEntryRequest):
            self._answer_push(handle, message)
        elif isinstance(message, LeadershipTransferRequest):
            self._transfer.take_request(handle, message)
        else:
            core.reply(handle, MetadataResponse(group=config.group, leader_id=core.leader))

    def _refuse_stray(self, handle: int, message: PeerRequest) -> None:
        core, config = self._core, self._core.config
        response = _RESPONSES[type(message)]()
        sender = message.local_id
        if message.remote_id != config.self_id:
            core.refuse(
                sender,
                RefusalReason.NOT_FOR_THIS_NODE,
                f"Node '{sender}' takes this node '{config.self_id}' for '{message.remote_id}'."
                " Correct the addresses in dLegerPeers.",
            )
            core.reply_code(handle, message, response, LedgerCode.UNKNOWN_MEMBER)
        else:
            core.refuse(
                sender,
                RefusalReason.OTHER_GROUP,
                f"Node '{sender}' belongs to group '{message.group}', this node to '{config.group}'."
                " Correct dLegerGroup or dLegerPeers.",
            )
            core.reply_code(handle, message, response, LedgerCode.UNKNOWN_GROUP)

    def _check_leader(self, leader: str | None, term: int) -> LedgerCode | None:
        """Follow the sender if it leads its term. Otherwise return why not."""
        core = self._core
        if leader is None or leader not in core.config.peer_ids:
            core.refuse(
                leader,
                RefusalReason.UNKNOWN_MEMBER,
                f"Leader '{leader}' is not a peer of group '{core.config.group}'. Add it to dLegerPeers of every node.",
            )
            return LedgerCode.UNKNOWN_MEMBER
        if leader == core.config.self_id:
            core.refuse(
                leader,
                RefusalReason.SAME_ID,
                f"Another node of group '{core.config.group}' has this node's id '{leader}', and leads. Change its dLegerSelfId.",
            )
            return LedgerCode.UNEXPECTED_MEMBER
        if not core.is_possible_term(term, leader):
            return LedgerCode.UNEXPECTED_ARGUMENT
        if core.storage_failure is not None:
            return LedgerCode.DISK_ERROR
        if term < core.term:
            return LedgerCode.EXPIRED_TERM
        if term > core.term or core.leader is None:
            self._election.follow(term, leader)
            self._follower.start()
        elif leader != core.leader:
            core.refuse(
                leader,
                RefusalReason.SECOND_LEADER,
                f"Node '{leader}' claims to lead term {term}, which '{core.leader}' leads. Check that no two nodes have one id.",
            )
            return LedgerCode.INCONSISTENT_LEADER
        self._follower.heard_at = core.now
        return None

    def _answer_heartbeat(self, handle: int, request: HeartBeatRequest) -> None:
        core = self._core
        code = self._check_leader(request.leader_id, request.term)
        response = HeartBeatResponse(code=(code or LedgerCode.SUCCESS).value)
        if code is None:
            self._follower.leader_admits = request.admit is not None
            if core.learner and request.admit:
                core.end_learning()
        if code in (LedgerCode.UNKNOWN_MEMBER, LedgerCode.UNEXPECTED_MEMBER, LedgerCode.EXPIRED_TERM):
            response.term = core.term
        response.learner = True if core.learner else None
        if code is None and core.config.binary_push and (request.binary_push or 0) >= BINARY_PUSH_VERSION:
            response.binary_push = BINARY_PUSH_VERSION
        core.reply(handle, response)

    def _answer_push(self, handle: int, push: PushEntryRequest) -> None:
        core = self._core
        code = self._check_leader(push.leader_id, push.term)
        if code is None:
            self._follower.take_push(handle, push)
            self._transfer.tick()
            return
        response = PushEntryResponse(group=push.group, term=push.term, code=code.value)
        response.begin_index, response.end_index = core.ledger.begin, core.ledger.end
        if push.type is not PushType.COMMIT:
            response.index, response.count = (push.entries[0].index if push.entries else -1), len(push.entries)
        core.reply(handle, response)

    # Responses of peers -----------------------------------------------------------------------------------------------

    def _take_response(self, peer: str, request_id: int, message: PeerResponse) -> None:
        core = self._core
        request = core.pending.get(request_id)
        if request is None or request.peer != peer:
            return  # late, or not asked
        del core.pending[request_id]
        if not isinstance(message, _ANSWERS[request.kind]):
            core.refuse(
                peer,
                RefusalReason.IMPOSSIBLE_ANSWER,
                f"Node '{peer}' answers a request of kind {request.kind} with a {type(message).__name__}; it is ignored.",
            )
        elif isinstance(message, LeadershipTransferResponse):
            self._transfer.take_response(request_id, message)
        elif isinstance(message, VoteResponse):
            self._election.take_response(request_id, request, message)
        elif core.role is Role.LEADER and request.term == core.term:
            if isinstance(message, HeartBeatResponse):
                term = self._replication.take_heartbeat_answer(request, message)
                if term is not None:
                    self._election.adopt_term(term)
            elif isinstance(message, PushEntryResponse):
                if message.term in (request.term, -1):
                    self._replication.take_push_answer(request_id, request, message)
                else:
                    core.refuse(
                        peer,
                        RefusalReason.IMPOSSIBLE_ANSWER,
                        f"Node '{peer}' answers a push of term {request.term} with term {message.term}; it does not count.",
                    )
