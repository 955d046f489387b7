"""The state that all parts of a node share, and the effects of the current step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from skyrocket.protocol.bodies.dledger import LedgerCode, LedgerMessage, PushEntryRequest, PushType
from skyrocket.raft.config import TERM_MAX, GroupConfig
from skyrocket.raft.errors import RefusalReason
from skyrocket.raft.ledger import Ledger, LedgerBounds
from skyrocket.raft.ports import (
    After,
    Committed,
    Effect,
    HardState,
    LogPoint,
    Persist,
    Refused,
    Reply,
    Role,
    RoleChanged,
    Send,
    SendEntries,
)

Draw: TypeAlias = Callable[[int, int], int]
"""Returns a random number from `low` to `high - 1`."""


class PendingRequest(Struct, frozen=True):
    """A request that a peer has not answered yet. `match` is the peer's watermark when it was sent."""

    peer: str
    kind: str
    term: int
    first: int
    count: int
    sent_at: float
    match: int


class Core:
    """Term, vote, role, log bounds and commit index of one node.

    Parts of the node change them through the methods below, which note the effects.
    """

    def __init__(self, config: GroupConfig, state: HardState, bounds: LedgerBounds, draw: Draw, now_ms: float) -> None:
        self.config = config
        self.timings = config.timings
        self.draw = draw
        self.now = now_ms
        self.role = Role.CANDIDATE
        self.leader: str | None = None
        self.term = state.term
        self.vote = state.vote
        self.learner = state.learner
        self.ledger = Ledger(config.segment_bytes, bounds.begin_index, bounds.end_index, bounds.end_term, bounds.end_position)
        self.commit = min(bounds.commit_index, bounds.end_index)
        self.storage_failure: str | None = None
        self.pending: dict[int, PendingRequest] = {}
        self.state_token = 0
        self.state_durable = 0
        self._dirty = False
        self._request_id = 0
        self._effects: list[Effect] = []
        if bounds.end_term > state.term:  # the file with the term is older than the log: votes may be forgotten
            self.term, self.vote, self.learner = bounds.end_term, None, True
            self.mark_dirty()

    # Steps ----------------------------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """Return the effects of this step. Term and vote come first."""
        effects = self._effects
        self._effects = []
        if self._dirty:
            self._dirty = False
            effects.insert(0, Persist(HardState(self.term, self.vote, self.learner), self.state_token))
        return effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def refuse(self, peer: str | None, why: RefusalReason, sentence: str) -> None:
        self._effects.append(Refused(peer, why, sentence))

    # Term, vote, role -------------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        """Term, vote or learner has changed: whatever leaves from now on waits until it is durable."""
        if not self._dirty:
            self._dirty = True
            self.state_token += 1

    def set_term(self, term: int) -> None:
        assert term > self.term
        self.term = term
        self.vote = None
        self.mark_dirty()

    def set_vote(self, candidate: str) -> None:
        if self.vote != candidate:
            assert self.vote is None, f"a second vote in term {self.term}"
            self.vote = candidate
            self.mark_dirty()

    def change_role(self, role: Role, leader: str | None) -> None:
        self.role = role
        self.leader = leader
        self.emit(RoleChanged(role, self.term, leader))

    def end_learning(self) -> None:
        self.learner = False
        self.mark_dirty()

    def is_possible_term(self, term: int, peer: str | None) -> bool:
        if -1 <= term <= TERM_MAX:
            return True
        self.refuse(
            peer,
            RefusalReason.IMPOSSIBLE_TERM,
            f"Node '{peer}' speaks of term {term}, which no election reaches; its message is ignored. Check that node.",
        )
        return False

    # Commit -----------------------------------------------------------------------------------------------------------

    def advance_commit(self, index: int) -> None:
        index = min(index, self.ledger.end)
        if index > self.commit:
            self.commit = index
            self.emit(Committed(index))

    # Messages ---------------------------------------------------------------------------------------------------------

    def _note_request(self, to: str, kind: str, first: int, count: int, match: int) -> int:
        self._request_id += 1
        self.pending[self._request_id] = PendingRequest(to, kind, self.term, first, count, self.now, match)
        return self._request_id

    def send(self, to: str, message: LedgerMessage, kind: str, match: int = -1) -> int:
        """Send a request when term and vote are durable. Return its id."""
        request_id = self._note_request(to, kind, -1, 0, match)
        message.group, message.local_id, message.remote_id = self.config.group, self.config.self_id, to
        self.emit(Send(to, request_id, message, After(self.state_token)))
        return request_id

    def send_entries(self, to: str, kind: PushType, first: int, entries_max: int, *, binary: bool) -> int:
        """Send a PUSH whose entries the shell reads from the log. Return its id."""
        request_id = self._note_request(to, kind, first, 0, -1)
        push = PushEntryRequest(
            group=self.config.group,
            local_id=self.config.self_id,
            remote_id=to,
            leader_id=self.config.self_id,
            term=self.term,
            type=kind,
            commit_index=self.commit,
        )
        after = After(self.state_token)
        self.emit(SendEntries(to, request_id, push, kind, first, entries_max, self.config.push_bytes_max, binary, after))
        return request_id

    def reply(self, handle: int, message: LedgerMessage, log: LogPoint | None = None) -> None:
        self.emit(Reply(handle, message, After(self.state_token, log)))

    def reply_code(self, handle: int, request: LedgerMessage, response: LedgerMessage, code: LedgerCode) -> None:
        """Answer a request that concerns another node or group: its own fields, our leader, an error code."""
        response.group, response.term = request.group, request.term
        response.local_id, response.remote_id = request.local_id, request.remote_id
        response.leader_id = self.leader
        response.code = code.value
        self.reply(handle, response)

    def expire_requests(self) -> list[tuple[int, PendingRequest]]:
        """Forget requests that got no answer within the time limit, and return them."""
        oldest = self.now - self.timings.request_timeout_ms
        expired: list[tuple[int, PendingRequest]] = []
        for request_id, request in self.pending.items():
            if request.sent_at > oldest:
                break
            expired.append((request_id, request))
        for request_id, _ in expired:
            del self.pending[request_id]
        return expired
