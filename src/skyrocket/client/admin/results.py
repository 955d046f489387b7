"""The results of admin methods: plain values. `msgspec.to_builtins` converts each for JSON."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.queues import Queue
from skyrocket.protocol.message.trace import TraceRow
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE

_LETTERS: Final = {"r": PERM_READ, "w": PERM_WRITE}


class AdminResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The base of all results."""


class QueueResult(AdminResult, frozen=True):
    """The base of results about one queue."""

    topic: str
    broker_name: str
    queue_id: int

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker_name, self.queue_id)


# --- topics


class TopicSettings(AdminResult, frozen=True):
    """The settings of a topic at one broker."""

    topic: str
    broker_name: str
    read_queues: int
    write_queues: int
    permission: str  # rw, r, w, or - for none
    is_ordered: bool
    attributes: dict[str, str]


class TopicBroker(AdminResult, frozen=True):
    """A broker in the route of a topic."""

    broker_name: str
    cluster: str
    addresses: dict[int, str]  # broker id -> address; the master is 0
    read_queues: int
    write_queues: int
    permission: str


class TopicRoute(AdminResult, frozen=True):
    """The brokers that have a topic."""

    topic: str
    brokers: list[TopicBroker]


class QueueStatus(QueueResult, frozen=True):
    """The messages in a queue."""

    first_offset: int
    end_offset: int  # one after the last message
    updated_ms: int  # when the last message was stored; 0: the queue is empty

    @property
    def messages(self) -> int:
        return self.end_offset - self.first_offset


class TopicStatus(AdminResult, frozen=True):
    """The messages in a topic."""

    topic: str
    messages: int
    queues: list[QueueStatus]


# --- groups


class GroupSettings(AdminResult, frozen=True):
    """The settings of a group at one broker."""

    group: str
    broker_name: str
    is_enabled: bool
    may_broadcast: bool
    is_orderly: bool
    retries_max: int
    retry_queues: int
    attributes: dict[str, str]


class ConsumerClient(AdminResult, frozen=True):
    """A connected consumer."""

    client_id: str
    address: str
    language: str
    version: str


class GroupMembers(AdminResult, frozen=True):
    """The connected consumers of a group and their subscriptions. Without members the other fields are empty."""

    group: str
    members: list[ConsumerClient]
    subscriptions: dict[str, str]  # topic -> expression
    is_broadcasting: bool | None
    start: str | None  # CONSUME_FROM_…, as in the members' heartbeats
    subscription_types: dict[str, str] = {}  # topic -> TAG or SQL92


class MemberQueue(QueueResult, frozen=True):
    """A queue that a consumer reads, as the consumer sees it."""

    committed_offset: int  # the next offset to commit
    cached_messages: int  # pulled and not finished
    pulled_ms: int = 0  # when it last pulled; 0: it does not tell, or never did
    consumed_ms: int = 0


class MemberRates(AdminResult, frozen=True):
    """How a consumer does with a topic, by its own measure. A client that does not measure tells zeros."""

    pull_ms: float  # mean time of a pull
    pulled_rate: float  # messages per second
    handling_ms: float  # mean time of the handler
    consumed_rate: float
    failed_rate: float
    failed: int  # messages in the last hour


class MemberState(AdminResult, frozen=True):
    """What a connected consumer tells about itself."""

    group: str
    client_id: str
    subscriptions: dict[str, str]  # topic -> expression
    queues: list[MemberQueue]
    subscription_types: dict[str, str] = {}  # topic -> TAG or SQL92
    is_broadcasting: bool | None = None  # None: it does not tell
    rates: dict[str, MemberRates] = {}  # by topic
    properties: dict[str, str] = {}  # its settings, by the names of Java's client
    stack: str = ""  # what its threads do, if that was asked for


class QueueProgress(QueueResult, frozen=True):
    """The progress of a group in a queue."""

    committed_offset: int
    end_offset: int
    pulled_offset: int  # the offset up to which members have pulled
    lag: int  # messages from committed_offset to end_offset
    consumed_ms: int  # when the last consumed message was stored; 0: unknown


class GroupProgress(AdminResult, frozen=True):
    """The progress of a group in all queues."""

    group: str
    lag: int
    rate: float  # consumed messages per second
    queues: list[QueueProgress]


class ProducerClient(AdminResult, frozen=True):
    """A connected producer."""

    group: str
    client_id: str
    address: str
    language: str
    version: str


# --- offsets


class QueueOffset(QueueResult, frozen=True):
    """The committed offset of a group in a queue. None: the group has none."""

    group: str
    offset: int | None


# --- brokers


class BrokerInfo(AdminResult, frozen=True):
    """A registered broker."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0


class StageDurations(AdminResult, frozen=True):
    """How long a stage of requests took: `counts[i]` durations were up to `bounds_ms[i]`; the last count is of longer ones."""

    bounds_ms: tuple[float, ...] = ()  # ascending; a bound without a count may be missing
    counts: tuple[int, ...] = (0,)

    @property
    def observed(self) -> int:
        return sum(self.counts)

    def quantile_ms(self, share: float) -> float | None:
        """Return a bound that this share of the durations did not exceed: infinity beyond all bounds, None without durations."""
        wanted, passed = math.ceil(share * self.observed), 0
        for bound_ms, count in self._by_bound().items():
            passed += count
            if passed >= wanted > 0:
                return bound_ms
        return None

    def since(self, earlier: StageDurations) -> StageDurations:
        """Return what was observed after an earlier look. After a restart of the broker that is everything."""
        before, now = earlier._by_bound(), self._by_bound()
        if any(now.get(bound_ms, 0) < count for bound_ms, count in before.items()):
            return self
        counts = tuple(count - before.get(bound_ms, 0) for bound_ms, count in now.items())
        return StageDurations(bounds_ms=self.bounds_ms, counts=counts)

    def _by_bound(self) -> dict[float, int]:
        return dict(zip((*self.bounds_ms, math.inf), self.counts, strict=True))


class BrokerState(BrokerInfo, frozen=True):
    """A broker and its state. Missing values are empty or 0. `error` says why the broker did not answer."""

    version: str = ""  # of RocketMQ, as the broker tells its clients
    skyrocket_version: str = ""  # of ours; empty: it is Apache's
    put_rate: float = 0.0  # messages per second, over the last 10 s
    get_rate: float = 0.0
    messages_today: int = 0
    disk_used_percent: float = 0.0
    longest_put_ms: int = 0  # the longest that a message took to store, since the broker started
    started_ms: int = 0
    error: str = ""
    node: str = ""  # its id in a DLedger group; empty: it is in none
    node_role: str = ""  # in the group: LEADER, FOLLOWER or CANDIDATE
    term: int = 0  # of the group, as the node knows it
    end_index: int = 0  # of the last entry in the node's log
    damaged_entries: int = 0  # of the node's log, that are not repaired yet
    stages: dict[str, StageDurations] = {}  # of our broker, since it started; none: Apache's
    put_p99_ms: float | None = None  # of Apache's broker: what 99 percent of messages took to store at most; None: not known
    put_p999_ms: float | None = None


class NameserverState(AdminResult, frozen=True):
    """A nameserver, and the addresses of the brokers that it knows. `error` says why it did not answer."""

    address: str
    brokers: list[str] = []
    error: str = ""


class SlaveState(AdminResult, frozen=True):
    """A slave, as its master sees it."""

    address: str  # of its connection to the master
    copied_offset: int  # up to here it has the log
    lag_bytes: int
    is_in_sync: bool


class ReplicationState(AdminResult, frozen=True):
    """How a broker replicates. A slave has no slaves, but the address of its master."""

    is_master: bool
    end_offset: int  # of the broker's log
    slaves: list[SlaveState]
    master_address: str


# ---


def permission_text(perm: int) -> str:
    """Convert permission bits to rw, r, w or -."""
    return "".join(letter for letter, bit in _LETTERS.items() if perm & bit) or "-"


def permission_bits(permission: str) -> int:
    """Convert rw, r, w or - to permission bits."""
    bits = 0
    for letter in permission.lower().replace("-", ""):
        if letter not in _LETTERS:
            raise ConfigurationError(f"A topic's permission is rw, r, w or -, not {permission!r}.")
        bits |= _LETTERS[letter]
    return bits


# --- access control


class AccessUser(AdminResult, frozen=True):
    """A user of a broker with access control."""

    name: str
    is_super: bool
    is_enabled: bool


class AccessRule(AdminResult, frozen=True):
    """A rule of a user: what it allows or denies."""

    user: str
    resource: str  # such as Topic:orders, Topic:ord*, Group:*, Cluster:*, *
    actions: tuple[str, ...]
    decision: str  # Allow, Deny
    sources: tuple[str, ...]  # addresses and networks; none: from everywhere
    is_default: bool  # counts only where no other rule matches


# --- messages


class TraceStep(AdminResult, frozen=True):
    """One row of the message trace, and the client that wrote it."""

    row: TraceRow
    client_host: str
