"""What an administrator is told: plain values, named for what a user knows. `msgspec.to_builtins` makes JSON of each."""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.queues import Queue
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE

_LETTERS: Final = {"r": PERM_READ, "w": PERM_WRITE}


class Result(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The root of all of them."""


class OfQueue(Result, frozen=True):
    """What is told of one queue."""

    topic: str
    broker_name: str
    queue_id: int

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker_name, self.queue_id)


# --- topics


class TopicSettings(Result, frozen=True):
    """A topic at one broker."""

    topic: str
    broker_name: str
    read_queues: int
    write_queues: int
    permission: str  # rw, r, w, or - for none
    is_ordered: bool
    attributes: dict[str, str]


class TopicBroker(Result, frozen=True):
    """A broker as a topic's route names it."""

    broker_name: str
    cluster: str
    addresses: dict[int, str]  # broker id -> address; the master is 0
    read_queues: int
    write_queues: int
    permission: str


class TopicRoute(Result, frozen=True):
    topic: str
    brokers: list[TopicBroker]


class QueueStatus(OfQueue, frozen=True):
    first_offset: int
    end_offset: int  # one past the last
    updated_ms: int  # when the last message was stored; 0 where there was none

    @property
    def messages(self) -> int:
        return self.end_offset - self.first_offset


class TopicStatus(Result, frozen=True):
    topic: str
    messages: int
    queues: list[QueueStatus]


# --- groups


class GroupSettings(Result, frozen=True):
    """A group at one broker."""

    group: str
    broker_name: str
    is_enabled: bool
    may_broadcast: bool
    is_orderly: bool
    retries_max: int
    retry_queues: int
    attributes: dict[str, str]


class GroupMember(Result, frozen=True):
    client_id: str
    address: str
    language: str
    version: str


class GroupMembers(Result, frozen=True):
    """Who consumes for a group now, and what. Without members the rest is not known."""

    group: str
    members: list[GroupMember]
    subscriptions: dict[str, str]  # topic -> expression
    is_broadcasting: bool | None
    start: str | None  # CONSUME_FROM_… as the members say it


class QueueProgress(OfQueue, frozen=True):
    committed_offset: int
    end_offset: int
    pulled_offset: int  # how far its members were given messages
    lag: int  # messages between them
    consumed_ms: int  # when the last consumed message was stored; 0 where that is not known


class GroupProgress(Result, frozen=True):
    group: str
    lag: int
    rate: float  # messages a second
    queues: list[QueueProgress]


class ProducerClient(Result, frozen=True):
    group: str
    client_id: str
    address: str
    language: str
    version: str


# --- offsets


class QueueOffset(OfQueue, frozen=True):
    """A group's offset in a queue; None where it has none."""

    group: str
    offset: int | None


# --- brokers


class Broker(Result, frozen=True):
    cluster: str
    broker_name: str
    broker_id: int
    address: str

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0


class BrokerState(Broker, frozen=True):
    """A broker that was asked how it is. What it did not say is empty or 0; `error` says why it said nothing."""

    version: str = ""
    put_rate: float = 0.0  # messages a second, over the last minute or so
    get_rate: float = 0.0
    messages_today: int = 0
    disk_used_percent: float = 0.0
    started_ms: int = 0
    error: str = ""


# ---


def permission_text(perm: int) -> str:
    return "".join(letter for letter, bit in _LETTERS.items() if perm & bit) or "-"


def permission_bits(permission: str) -> int:
    """Of rw, r, w or -."""
    bits = 0
    for letter in permission.lower().replace("-", ""):
        if letter not in _LETTERS:
            raise ConfigurationError(f"A topic's permission is rw, r, w or -, not {permission!r}.")
        bits |= _LETTERS[letter]
    return bits
