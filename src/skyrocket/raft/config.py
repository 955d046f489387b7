"""The settings of a group and its timings. All times are milliseconds."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from skyrocket.raft.errors import GroupError

INFLIGHT_PUSHES_MAX: Final = 1_000
"""Pushes that one follower has not answered yet, as in DLedger."""
WAITING_APPENDS_MAX: Final = 1_000
"""APPENDs that a follower keeps because an earlier one has not arrived."""
WAITING_BYTES_MAX: Final = 64 << 20
"""The entries in these APPENDs. What exceeds either bound is answered as inconsistent, and the leader compares."""
COMPARISONS_MAX: Final = 100
"""Pushes that wait for a comparison with the stored entries, as in DLedger."""
TRANSFER_LAG_MAX: Final = 1_000
"""A node that lacks this many entries is not made leader, as in DLedger."""
TERM_MAX: Final = 2**62
"""A higher term is a lie: it leaves no room for elections."""


class Timings(Struct, frozen=True, kw_only=True):
    """When a node speaks, and how long it waits. The defaults are DLedger's."""

    heartbeat_ms: int = 2_000
    heartbeats_missed_max: int = 3
    """A follower without a heartbeat for this many intervals becomes a candidate; a leader without a quorum steps down."""
    vote_interval_min_ms: int = 300
    vote_interval_max_ms: int = 1_000
    taking_interval_min_ms: int = 30
    taking_interval_max_ms: int = 100
    """The vote interval while a node takes the leadership over, and is a preferred leader."""
    vote_wait_ms: int = 2_000
    """How long a candidate waits for votes, plus a random part of the vote interval."""
    retransmit_ms: int = 1_000
    compare_timeout_ms: int = 3_000
    compare_pause_ms: int = 500
    """The pause before a comparison is sent again after an error."""
    commit_interval_ms: int = 1_000
    """An idle leader repeats its commit index after this time."""
    commit_notice_ms: int = 20
    """A new commit index is sent after this time when no entry carries it. Apache's leader waits for `commit_interval_ms`."""
    append_wait_ms: int = 1_000
    """How long a follower keeps an APPEND whose predecessor is missing."""
    transfer_wait_ms: int = 1_000
    request_timeout_ms: int = 3_000
    preferred_check_ms: int = 1_000

    @property
    def leader_silence_ms(self) -> int:
        return self.heartbeat_ms * self.heartbeats_missed_max


DLEDGER_TIMINGS: Final = Timings()

FAST_TIMINGS: Final = Timings(
    heartbeat_ms=100,
    vote_interval_min_ms=50,
    vote_interval_max_ms=150,
    vote_wait_ms=200,
    retransmit_ms=250,
    compare_timeout_ms=500,
    compare_pause_ms=50,
    commit_interval_ms=200,
    append_wait_ms=250,
)
"""Timings for groups whose nodes are all ours: half of the fail-overs take less than a second."""


class GroupConfig(Struct, frozen=True, kw_only=True):
    """A group as one of its nodes sees it."""

    group: str
    self_id: str
    peer_ids: tuple[str, ...]
    """The ids of all nodes, this one included."""
    segment_bytes: int = 1 << 30
    """The size of a data file: equal on all nodes, because an entry's position depends on it."""
    preferred_leader_ids: tuple[str, ...] = ()
    push_entries_max: int = 500
    push_bytes_max: int = 1 << 20
    """The most entries and bytes in one APPEND. The shell sends at least one entry."""
    binary_push: bool = True
    """Use the binary form of PUSH with nodes that read it."""
    timings: Timings = DLEDGER_TIMINGS

    def __post_init__(self) -> None:
        if self.self_id not in self.peer_ids:
            raise GroupError(
                f"Node '{self.self_id}' is not among the peers {', '.join(self.peer_ids)} of group '{self.group}'."
                " Add it to dLegerPeers, or correct dLegerSelfId."
            )
        if len(set(self.peer_ids)) != len(self.peer_ids):
            raise GroupError(f"Group '{self.group}' names a peer twice: {', '.join(self.peer_ids)}. Give each node its own id.")

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(peer for peer in self.peer_ids if peer != self.self_id)

    @property
    def quorum(self) -> int:
        return len(self.peer_ids) // 2 + 1
