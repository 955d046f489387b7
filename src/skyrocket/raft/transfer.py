"""Leadership transfer: an administrator, or a preferred leader's coming back, moves the leadership without a silence.

tool ──51005──▶ leader: refuses appends ──51005 with its end index──▶ transferee: catches up, asks for votes in term + 1
"""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.bodies.dledger import LeadershipTransferRequest, LeadershipTransferResponse, LedgerCode
from skyrocket.raft.config import TRANSFER_LAG_MAX
from skyrocket.raft.core import Core, PendingRequest
from skyrocket.raft.election import Election
from skyrocket.raft.ports import Role
from skyrocket.raft.replication import LogReplication

TRANSFER = "LEADERSHIP_TRANSFER"
NEVER = float("inf")


class AwaitedTakeOver(NamedTuple):
    """The leader has asked this node to lead, and waits for the result."""

    handle: int
    request: LeadershipTransferRequest
    deadline: float


class LeadershipTransfer:
    """Both sides of a transfer."""

    def __init__(self, core: Core, election: Election, replication: LogReplication) -> None:
        self._core = core
        self._election = election
        self._replication = replication
        self.transferee: str | None = None
        self._term = -1  # in which the transfer began
        self._handle: int | None = None
        self._request_id = 0
        self._preferred_at = core.now
        self._catching_up: AwaitedTakeOver | None = None
        self._taking: AwaitedTakeOver | None = None

    @property
    def wake_at(self) -> float:
        core = self._core
        if self._catching_up is not None:
            return min(self._catching_up.deadline, core.now + 10)
        if core.role is Role.LEADER and core.config.preferred_leader_ids:
            return self._preferred_at
        return NEVER

    # At the leader ----------------------------------------------------------------------------------------------------

    def take_request(self, handle: int, request: LeadershipTransferRequest) -> None:
        self_id = self._core.config.self_id
        if request.transfer_id == self_id:
            code = self._find_obstacle(request)
            if code is None:
                assert request.transferee_id is not None
                self._begin(request.transferee_id, handle)
            else:
                self._core.reply_code(handle, request, LeadershipTransferResponse(), code)
        elif request.transferee_id == self_id:
            self._take_over(handle, request)
        else:
            self._answer(handle, LedgerCode.UNEXPECTED_ARGUMENT)

    def _find_obstacle(self, request: LeadershipTransferRequest) -> LedgerCode | None:
        core = self._core
        if request.transferee_id not in core.config.peer_ids:
            return LedgerCode.UNKNOWN_MEMBER
        if request.term != core.term:
            return LedgerCode.INCONSISTENT_TERM
        if core.role is not Role.LEADER:
            return LedgerCode.NOT_LEADER
        if request.transferee_id == core.config.self_id:
            return LedgerCode.UNEXPECTED_ARGUMENT
        if core.ledger.end - self._replication.peers[request.transferee_id].match >= TRANSFER_LAG_MAX:
            return LedgerCode.FALL_BEHIND_TOO_MUCH
        return LedgerCode.LEADER_TRANSFERRING if self.transferee is not None else None

    def _begin(self, transferee: str, handle: int | None) -> None:
        core = self._core
        self.transferee = transferee
        self._term = core.term
        self._handle = handle
        request = LeadershipTransferRequest(
            leader_id=core.config.self_id,
            term=core.term,
            transfer_id=core.config.self_id,
            transferee_id=transferee,
            take_leadership_ledger_index=core.ledger.end,
        )
        self._request_id = core.send(transferee, request, TRANSFER)

    def take_response(self, request_id: int, response: LeadershipTransferResponse) -> None:
        if request_id == self._request_id:
            self._end(response.code, response.term)

    def note_no_answer(self, request_id: int, request: PendingRequest) -> None:
        if request.kind == TRANSFER and request_id == self._request_id:
            self._end(LedgerCode.TIMEOUT, self._core.term)

    def _end(self, code: int, term: int) -> None:
        handle, self._handle = self._handle, None
        self.transferee = None
        self._request_id = 0
        if handle is not None:
            self._core.reply(handle, LeadershipTransferResponse(code=int(code), term=term))

    def check_preferred(self) -> None:
        """Hand over to the live preferred leader that lags least."""
        core = self._core
        if core.now < self._preferred_at or core.role is not Role.LEADER:
            return
        self._preferred_at = core.now + core.timings.preferred_check_ms
        preferred = core.config.preferred_leader_ids
        if self.transferee is not None or core.config.self_id in preferred:
            return
        lags = {
            peer: core.ledger.end - progress.match
            for peer, progress in self._replication.peers.items()
            if peer in preferred and progress.alive
        }
        if lags and min(lags.values()) < TRANSFER_LAG_MAX:
            self._begin(min(lags, key=lambda peer: (lags[peer], peer)), None)

    # At the transferee ------------------------------------------------------------------------------------------------

    def _take_over(self, handle: int, request: LeadershipTransferRequest) -> None:
        core = self._core
        if request.transfer_id is None or request.transfer_id != core.leader:
            core.reply_code(handle, request, LeadershipTransferResponse(), LedgerCode.INCONSISTENT_LEADER)
        elif request.term != core.term:
            self._answer(handle, LedgerCode.INCONSISTENT_TERM)
        elif core.learner or self._catching_up is not None:
            self._answer(handle, LedgerCode.TAKE_LEADERSHIP_FAILED)
        else:
            self._catching_up = AwaitedTakeOver(handle, request, core.now + core.timings.transfer_wait_ms)
            self.tick()

    def tick(self) -> None:
        """Ask for votes once everything of the leader is here."""
        core, awaited = self._core, self._catching_up
        if awaited is None:
            return
        if core.role is not Role.FOLLOWER or core.term != awaited.request.term:
            self._catching_up = None
            self._answer(awaited.handle, LedgerCode.TAKE_LEADERSHIP_FAILED)
        elif core.ledger.end >= awaited.request.take_leadership_ledger_index:
            self._catching_up = None
            self._taking = awaited
            self._election.take_leadership(core.term + 1)
        elif core.now >= awaited.deadline:
            self._catching_up = None
            self._answer(awaited.handle, LedgerCode.TAKE_LEADERSHIP_FAILED)

    def note_role(self) -> None:
        """The role or term has changed: a transfer that waits for it has its result."""
        core = self._core
        leads_on = core.role is Role.LEADER and core.term == self._term
        if self.transferee is not None and core.leader is not None and not leads_on:  # without a leader, it may yet win
            self._end(LedgerCode.SUCCESS if core.leader == self.transferee else LedgerCode.TERM_CHANGED, core.term)
        taking = self._taking
        if taking is None:
            return
        target = taking.request.term + 1
        if core.term > target:
            code = LedgerCode.EXPIRED_TERM
        elif core.role is Role.LEADER and core.term == target:
            code = LedgerCode.SUCCESS
        elif core.role is Role.FOLLOWER:
            code = LedgerCode.TAKE_LEADERSHIP_FAILED
        else:
            return
        self._taking = None
        self._election.term_to_take = -1
        self._answer(taking.handle, code)

    def _answer(self, handle: int, code: LedgerCode) -> None:
        self._core.reply(handle, LeadershipTransferResponse(code=code.value, term=self._core.term))
