"""Events that the state machine takes and effects that it returns.

The shell executes effects in their order, and reports what happened as events. Two durability tokens say what must be on disk
before a message leaves:

    Persist(state, token)        ──fsync──▶  StateDurable(token)
    Append / Truncate / ResetLog ──fsync──▶  LogDurable(LogPoint(epoch, index))

    Send, Reply, SendEntries have `after`: they leave when `after.state` and `after.log` are durable. `Outbox` holds them back.

`epoch` counts the truncations of the log since the start: a flush that began before a truncation says nothing about the entries
that were written after it. A message about a former epoch never leaves.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from skyrocket.protocol.bodies.dledger import (
    DLedgerEntry,
    HeartBeatRequest,
    HeartBeatResponse,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerMessage,
    MetadataRequest,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
    VoteRequest,
    VoteResponse,
)
from skyrocket.raft.errors import RefusalReason

PeerRequest: TypeAlias = VoteRequest | HeartBeatRequest | PushEntryRequest | LeadershipTransferRequest | MetadataRequest
"""The requests that a node answers. Others (50001, 50002) are answered by the shell."""
PeerResponse: TypeAlias = VoteResponse | HeartBeatResponse | PushEntryResponse | LeadershipTransferResponse


class Role(Enum):
    CANDIDATE = "CANDIDATE"
    FOLLOWER = "FOLLOWER"
    LEADER = "LEADER"


class HardState(NamedTuple):
    """What must survive a crash beside the log.

    `learner` is set for a node that starts without this file: it may have voted and acknowledged before it lost its disk, so it
    votes again only when it has every entry of a leader. DLedger's file `currterm` has the first two.
    """

    term: int = 0
    vote: str | None = None
    learner: bool = False


class LogPoint(Struct, frozen=True, order=True):
    """A point of the log: everything up to `index`, as it was in `epoch`."""

    epoch: int
    index: int


class After(NamedTuple):
    """What must be durable before a message leaves."""

    state: int = 0
    log: LogPoint | None = None


# Events -------------------------------------------------------------------------------------------------------------


class Tick(Struct, frozen=True):
    """Time has passed. Due at `RaftNode.wake_at`, or every 10 ms."""


class Request(Struct, frozen=True):
    """A request has arrived. `handle` comes back in the `Reply`. The shell adds the addresses to the reply to METADATA."""

    handle: int
    message: PeerRequest


class Response(Struct, frozen=True):
    """A peer has answered the request `request_id`."""

    peer: str
    request_id: int
    message: PeerResponse


class Unreachable(Struct, frozen=True):
    """The connection to a peer is closed. Requests that it did not answer get no answer."""

    peer: str


class StateDurable(Struct, frozen=True):
    token: int


class LogDurable(Struct, frozen=True):
    point: LogPoint


class Proposed(Struct, frozen=True):
    """The shell of the leader has appended entries of the current term up to `last_index`, which ends at `end_position`."""

    last_index: int
    end_position: int


class Pushed(Struct, frozen=True):
    """The shell has read the entries of a `SendEntries` and sent `count` of them. 0: they are not in the log any more."""

    request_id: int
    count: int


class EntriesCompared(Struct, frozen=True):
    compare_id: int
    equal: bool


class Expired(Struct, frozen=True):
    """The shell has deleted the oldest entries: the log begins with `begin_index` now. They were committed."""

    begin_index: int


class StorageFailed(Struct, frozen=True):
    """A write or flush failed. The node takes no part in the group until it is started again, or made anew by its shell.

    `is_lasting` says that nothing but a start helps.
    """

    reason: str
    is_lasting: bool = True


Event: TypeAlias = (
    Tick
    | Request
    | Response
    | Unreachable
    | StateDurable
    | LogDurable
    | Proposed
    | Pushed
    | EntriesCompared
    | Expired
    | StorageFailed
)

# Effects ------------------------------------------------------------------------------------------------------------


class Persist(Struct, frozen=True):
    """Write and sync term and vote, then report `StateDurable(token)`. A newer one replaces an older one."""

    state: HardState
    token: int


class Append(Struct, frozen=True):
    """Write a leader's entries behind the end of the log."""

    entries: list[DLedgerEntry]
    epoch: int


class Truncate(Struct, frozen=True):
    """Remove all entries behind `keep_index`. Keep the removed bytes aside."""

    keep_index: int
    epoch: int


class ResetLog(Struct, frozen=True):
    """Remove all entries. The next one has this index and position."""

    index: int
    position: int
    epoch: int


class CompareStored(Struct, frozen=True):
    """Compare entries with the stored ones (size, magic, index, term, channel, pos, body), and report `EntriesCompared`."""

    compare_id: int
    entries: list[DLedgerEntry]


class Send(Struct, frozen=True):
    to: str
    request_id: int
    message: LedgerMessage
    after: After


class SendEntries(Struct, frozen=True):
    """Send a PUSH with entries of the log, from `first_index` on: at least one, at most `entries_max` and `bytes_max`.

    The shell reports `Pushed` at once, before any answer. `push` has all other fields of the message.
    """

    to: str
    request_id: int
    push: PushEntryRequest
    kind: PushType
    first_index: int
    entries_max: int
    bytes_max: int
    binary: bool
    after: After


class Reply(Struct, frozen=True):
    handle: int
    message: LedgerMessage
    after: After


class Committed(Struct, frozen=True):
    """Entries up to `index` are committed: acknowledge, dispatch and show them."""

    index: int


class RoleChanged(Struct, frozen=True):
    role: Role
    term: int
    leader: str | None


class ProposeMarker(Struct, frozen=True):
    """The new leader has entries of former terms that may not be committed. Append one entry of this term.

    An entry of its own term is what commits them. It must be a whole message (to a system topic): Apache's dispatcher cannot
    step over an entry without one.
    """

    term: int


class Refused(Struct, frozen=True):
    """Something was refused or is wrong in the group. One sentence for the log."""

    peer: str | None
    why: RefusalReason
    sentence: str


Effect: TypeAlias = (
    Persist
    | Append
    | Truncate
    | ResetLog
    | CompareStored
    | Send
    | SendEntries
    | Reply
    | Committed
    | RoleChanged
    | ProposeMarker
    | Refused
)
