"""Steps of a node as text: what happened, what the node does. Tests compare lines."""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.protocol.bodies.dledger import (
    DLedgerEntry,
    HeartBeatRequest,
    HeartBeatResponse,
    LedgerCode,
    LedgerMessage,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
    VoteRequest,
    VoteResponse,
    VoteResult,
)
from skyrocket.raft.config import GroupConfig
from skyrocket.raft.ledger import LedgerBounds
from skyrocket.raft.node import RaftNode
from skyrocket.raft.ports import (
    After,
    Append,
    Committed,
    CompareStored,
    Effect,
    Event,
    HardState,
    LogDurable,
    LogPoint,
    Persist,
    ProposeMarker,
    Pushed,
    Refused,
    Reply,
    Request,
    ResetLog,
    Response,
    Role,
    RoleChanged,
    Send,
    SendEntries,
    StateDurable,
    Tick,
    Truncate,
)

GROUP = GroupConfig(group="g", self_id="n0", peer_ids=("n0", "n1", "n2"))
VOTER = HardState(0, None)
EMPTY = LedgerBounds()


def entry(index: int, term: int = 1, body: bytes = b"0123456789ab") -> DLedgerEntry:
    """Entries of 60 bytes, one behind the other."""
    return DLedgerEntry(size=48 + len(body), index=index, term=term, pos=index * 60, body=body)


def log_of(count: int, term: int = 1, commit: int = -1) -> LedgerBounds:
    return LedgerBounds(0, count - 1, term, count * 60, commit) if count else EMPTY


class Steps:
    """A node under test. `now` is its clock; `durable` makes everything durable at once."""

    def __init__(
        self,
        state: HardState | None = VOTER,
        bounds: LedgerBounds = EMPTY,
        config: GroupConfig = GROUP,
        draw: Callable[[int, int], int] = lambda low, _high: low,
        *,
        durable: bool = True,
    ) -> None:
        self.now = 0.0
        self.durable = durable
        self.node = RaftNode(config, state, bounds, draw, self.now)
        self._handle = 0
        self.sent: dict[tuple[str, str], int] = {}
        self.effects: list[Effect] = []
        if durable:
            self.node.step(LogDurable(LogPoint(0, bounds.end_index)), self.now)

    def feed(self, event: Event) -> list[str]:
        self.effects = self.node.step(event, self.now)
        if self.durable:
            for effect in list(self.effects):
                if isinstance(effect, Persist):
                    self.effects += self.node.step(StateDurable(effect.token), self.now)
                elif isinstance(effect, Append | Truncate | ResetLog):
                    point = LogPoint(self.node.epoch, self.node.end_index)
                    self.effects += self.node.step(LogDurable(point), self.now)
        for effect in self.effects:
            if isinstance(effect, Send):
                self.sent[effect.to, type(effect.message).__name__.removesuffix("Request")] = effect.request_id
            elif isinstance(effect, SendEntries):
                self.sent[effect.to, effect.kind] = effect.request_id
        return [tell(effect) for effect in self.effects]

    def tick(self, after_ms: float = 0) -> list[str]:
        self.now += after_ms
        return self.feed(Tick())

    def ask(self, message: LedgerMessage, *, group: str = "g", remote: str = "n0") -> list[str]:
        """A request of a peer arrives."""
        self._handle += 1
        message.group, message.remote_id = group, remote
        if message.local_id is None:
            message.local_id = message.leader_id
        return self.feed(Request(self._handle, message))

    def answer(self, peer: str, kind: str, message: LedgerMessage) -> list[str]:
        """A peer answers the last request of a kind."""
        return self.feed(Response(peer, self.sent[peer, kind], message))

    def pushed(self, peer: str, kind: str = "APPEND", count: int = 1) -> list[str]:
        return self.feed(Pushed(self.sent[peer, kind], count))

    # Often used -------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """Win an election with the vote of n1."""
        self.tick(2_000)
        while self.node.role is not Role.LEADER:
            self.answer("n1", "Vote", VoteResponse(vote_result=VoteResult.ACCEPT, term=self.node.term))
            if self.node.role is not Role.LEADER:
                self.tick(2_000)

    def follow(self, leader: str = "n1", term: int = 1) -> None:
        self.ask(HeartBeatRequest(leader_id=leader, term=term))

    def match(self, leader: str = "n1", term: int = 1) -> None:
        """Follow a leader whose log this node's equals."""
        self.follow(leader, term)
        self.node._follower.matched = self.node.end_index

    def push_answer(self, peer: str, kind: str, code: int = 200, **fields: int) -> list[str]:
        return self.answer(peer, kind, PushEntryResponse(code=code, term=self.node.term, **fields))  # type: ignore[arg-type]


def vote(candidate: str, term: int, end: tuple[int, int] = (-1, -1)) -> VoteRequest:
    """A request for a vote; `end` is the term and index of the candidate's last entry."""
    return VoteRequest(leader_id=candidate, term=term, ledger_end_term=end[0], ledger_end_index=end[1])


def push(kind: PushType, entries: list[DLedgerEntry], leader: str = "n1", term: int = 1, commit: int = -1) -> PushEntryRequest:
    request = PushEntryRequest(leader_id=leader, term=term, type=kind, commit_index=commit)
    request.carry(entries, batch=len(entries) > 1)
    return request


def tell(effect: Effect) -> str:
    """One line for an effect."""
    match effect:
        case Persist(state):
            return f"persist term {state.term} vote {state.vote}" + (" learner" if state.learner else "")
        case Append(entries):
            return f"append {span(entries)}"
        case Truncate(keep_index):
            return f"truncate behind {keep_index}"
        case ResetLog(index, position):
            return f"reset log to index {index} at {position}"
        case CompareStored(_, entries):
            return f"compare {span(entries)}"
        case Send(to, _, message, after):
            return f"{tell_message(message)} to {to}{tell_after(after)}"
        case SendEntries(to, _, _, kind, first, entries_max, _, binary):
            return f"{kind} from {first}, at most {entries_max}, to {to}" + (", binary" if binary else "")
        case Reply(_, message, after):
            return f"reply {tell_message(message)}{tell_after(after)}"
        case Committed(index):
            return f"commit {index}"
        case RoleChanged(role, term, leader):
            return f"{role.value} in term {term} under {leader}"
        case ProposeMarker(term):
            return f"propose a marker of term {term}"
        case Refused(_, why):
            return f"refuse: {why.value}"


def span(entries: list[DLedgerEntry]) -> str:
    return f"{entries[0].index}-{entries[-1].index}"


def tell_after(after: After) -> str:
    return "" if after.log is None else f" after log {after.log.epoch}/{after.log.index}"


def tell_message(message: LedgerMessage) -> str:
    match message:
        case VoteRequest():
            return f"VOTE term {message.term} end {message.ledger_end_term}/{message.ledger_end_index}"
        case VoteResponse():
            return f"{message.vote_result} term {message.term}" + (" learner" if message.learner else "")
        case HeartBeatRequest():
            return f"HEART_BEAT term {message.term}"
        case HeartBeatResponse():
            return f"{LedgerCode(message.code).name} term {message.term}"
        case PushEntryRequest():
            return f"{message.type} commit {message.commit_index}"
        case PushEntryResponse():
            return f"{LedgerCode(message.code).name} index {message.index} count {message.count} end {message.end_index}"
        case _:
            return f"{LedgerCode(message.code).name} term {message.term}"
