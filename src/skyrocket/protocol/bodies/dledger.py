"""Messages between the nodes of a DLedger group (DLedger 0.3.2): votes, heartbeats, pushes, leadership transfer.

Every message has the fields of `LedgerMessage`. The header of a response frame always has code 200; the result is the `code` of
its body. A request has code 200, too. In a push, an entry's body is Base64, as Java's library writes an array of bytes.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import field

from skyrocket.protocol.bodies.body import Body, Int32, Int64
from skyrocket.protocol.ledger_entry import ENTRY_MAGIC


class LedgerCode(IntEnum):
    """The results that a body's `code` can have, with DLedger's names."""

    UNKNOWN = -1
    SUCCESS = 200
    TIMEOUT = 300
    METADATA_ERROR = 301
    NETWORK_ERROR = 302
    UNSUPPORTED = 303
    UNKNOWN_GROUP = 400
    UNKNOWN_MEMBER = 401
    UNEXPECTED_MEMBER = 402
    EXPIRED_TERM = 403
    NOT_LEADER = 404
    NOT_FOLLOWER = 405
    INCONSISTENT_STATE = 406
    INCONSISTENT_TERM = 407
    INCONSISTENT_INDEX = 408
    INCONSISTENT_LEADER = 409
    INDEX_OUT_OF_RANGE = 410
    UNEXPECTED_ARGUMENT = 411
    REPEATED_REQUEST = 412
    REPEATED_PUSH = 413
    DISK_ERROR = 414
    DISK_FULL = 415
    TERM_NOT_READY = 416
    FALL_BEHIND_TOO_MUCH = 417
    TAKE_LEADERSHIP_FAILED = 418
    INDEX_LESS_THAN_LOCAL_BEGIN = 419
    REQUEST_WITH_EMPTY_BODYS = 420
    INTERNAL_ERROR = 500
    TERM_CHANGED = 501
    WAIT_QUORUM_ACK_TIMEOUT = 502
    LEADER_PENDING_FULL = 503
    ILLEGAL_MEMBER_STATE = 504
    LEADER_NOT_READY = 505
    LEADER_TRANSFERRING = 506
    LOAD_SNAPSHOT_ERROR = 507


class VoteResult(StrEnum):
    """The answer to a request for a vote."""

    UNKNOWN = "UNKNOWN"
    ACCEPT = "ACCEPT"
    REJECT_UNKNOWN_LEADER = "REJECT_UNKNOWN_LEADER"
    REJECT_UNEXPECTED_LEADER = "REJECT_UNEXPECTED_LEADER"
    REJECT_EXPIRED_VOTE_TERM = "REJECT_EXPIRED_VOTE_TERM"
    REJECT_ALREADY_VOTED = "REJECT_ALREADY_VOTED"
    REJECT_ALREADY_HAS_LEADER = "REJECT_ALREADY_HAS_LEADER"
    REJECT_TERM_NOT_READY = "REJECT_TERM_NOT_READY"
    REJECT_TERM_SMALL_THAN_LEDGER = "REJECT_TERM_SMALL_THAN_LEDGER"
    REJECT_EXPIRED_LEDGER_TERM = "REJECT_EXPIRED_LEDGER_TERM"
    REJECT_SMALL_LEDGER_END_INDEX = "REJECT_SMALL_LEDGER_END_INDEX"
    REJECT_TAKING_LEADERSHIP = "REJECT_TAKING_LEADERSHIP"


class PushType(StrEnum):
    """What a push asks of a follower."""

    APPEND = "APPEND"
    COMMIT = "COMMIT"
    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"


class LedgerMessage(Body):
    """The fields of every message. `local_id` is the sender, `remote_id` the receiver."""

    group: str | None = None
    remote_id: str | None = None
    local_id: str | None = None
    leader_id: str | None = None
    term: Int64 = -1
    code: Int32 = LedgerCode.SUCCESS.value


class DLedgerEntry(Body, gc=False):
    """An entry of the ledger. `pos` is its position in the data files, `size` includes the header of 48 bytes."""

    magic: Int32 = ENTRY_MAGIC
    size: Int32 = 0
    index: Int64 = -1
    term: Int64 = -1
    pos: Int64 = -1
    channel: Int32 = 0
    chain_crc: Int32 = 0
    body_crc: Int32 = 0
    body: bytes = b""


class MetadataRequest(LedgerMessage):
    pass


class MetadataResponse(LedgerMessage):
    peers: dict[str, str] | None = None


class AppendEntryRequest(LedgerMessage):
    """A message from a tool that writes to the ledger directly. RocketMQ's nodes do not send it."""

    body: bytes | None = None


class AppendEntryResponse(LedgerMessage):
    index: Int64 = -1
    pos: Int64 = -1


class GetEntriesRequest(LedgerMessage):
    begin_index: Int64 | None = None
    max_size: Int32 | None = None


class GetEntriesResponse(LedgerMessage):
    entries: list[DLedgerEntry] | None = None


class VoteRequest(LedgerMessage):
    """The candidate is `leader_id`."""

    ledger_end_index: Int64 = -1
    ledger_end_term: Int64 = -1


class VoteResponse(LedgerMessage):
    """Copies the request's ids; `term` is the voter's.

    `learner` is ours: the voter has lost its disk. It has given its vote, which counts only if all other nodes give theirs.
    Apache's nodes ignore it and read a rejection.
    """

    vote_result: VoteResult = VoteResult.UNKNOWN
    learner: bool | None = None


class HeartBeatRequest(LedgerMessage):
    """`binary_push` and `admit` are ours; Apache's nodes ignore them.

    `binary_push` is the highest version of the binary form of PUSH that the leader writes. `admit` is true if the leader has seen
    that this follower, which had lost its disk, has everything again; false otherwise.
    """

    binary_push: Int32 | None = None
    admit: bool | None = None


class HeartBeatResponse(LedgerMessage):
    """Apache's follower sends code and term alone. `binary_push`: the highest version that this follower reads.

    `learner` is as in `PushEntryResponse`; a group without entries has no pushes that could say it.
    """

    binary_push: Int32 | None = None
    learner: bool | None = None


class PushEntryRequest(LedgerMessage):
    """One entry in `entry`, or several in `batch_entry`. Java writes, and does not read, what can be derived from them."""

    commit_index: Int64 = -1
    type: PushType = PushType.APPEND
    entry: DLedgerEntry | None = None
    batch_entry: list[DLedgerEntry] = field(default_factory=list)
    batch: bool = False
    count: Int32 = 0
    first_entry_index: Int64 = -1
    last_entry_index: Int64 = -1
    total_size: Int64 = 0

    @property
    def entries(self) -> list[DLedgerEntry]:
        if self.batch_entry:
            return self.batch_entry
        return [] if self.entry is None else [self.entry]

    def carry(self, entries: list[DLedgerEntry], *, batch: bool) -> None:
        """Set the entries, and the fields that are derived from them as Java derives them."""
        self.entry = None if batch or not entries else entries[0]
        self.batch_entry = entries if batch else []
        self.batch = batch
        self.count = len(entries)
        self.first_entry_index = entries[0].index if entries else -1
        self.last_entry_index = entries[-1].index if entries else -1
        self.total_size = sum(entry.size for entry in entries) if batch else 0


class PushEntryResponse(LedgerMessage):
    """`index` and `count` are the request's, absent and 0 for COMMIT. `begin_index` and `end_index` are the follower's.

    `learner` is ours: the follower has lost its disk, and a leader of ours does not count its copies yet.
    """

    learner: bool | None = None
    index: Int64 | None = None
    count: Int32 = 0
    begin_index: Int64 = -1
    end_index: Int64 = -1


class LeadershipTransferRequest(LedgerMessage):
    """From a tool to the leader (`transfer_id`), then from the leader to the node that shall lead (`transferee_id`)."""

    transfer_id: str | None = None
    transferee_id: str | None = None
    take_leadership_ledger_index: Int64 = -1


class LeadershipTransferResponse(LedgerMessage):
    pass
