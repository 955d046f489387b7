"""What is known of a cluster at one moment: nameservers, brokers, topics and groups. Plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from skyrocket.doctor.backlog.look import GroupLook
from skyrocket.doctor.backlog.measure import GroupBacklog

_UPTIME: Final = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_UPTIME_ROUNDING_MS: Final = 500  # a broker tells whole seconds


@dataclass(frozen=True, slots=True)
class NameserverFacts:
    """A nameserver, and the brokers that it knows: name and address."""

    address: str
    brokers: frozenset[tuple[str, str]] = frozenset()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SlaveFacts:
    """A slave that is connected to its master, as the master sees it."""

    address: str
    acknowledged: int  # the log offset up to which it has everything
    behind_bytes: int


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A registered broker. `error` says why it did not answer, `refusal` why it answered and told nothing."""

    cluster: str
    name: str
    broker_id: int
    address: str
    error: str = ""
    refusal: str = ""
    asked_ms: int = 0  # our clock, in the middle of the question
    runtime: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    slaves: Sequence[SlaveFacts] | None = None  # None: not known

    @property
    def is_master(self) -> bool:
        return self.broker_id == 0

    @property
    def about(self) -> str:
        return f"broker {self.name} ({self.address})"

    @property
    def is_ours(self) -> bool:
        return "skyrocketVersion" in self.runtime

    def figure(self, name: str, default: float = 0.0) -> float:
        """Return the first number of a runtime value."""
        return _first_number(self.runtime.get(name, ""), default)

    def setting(self, name: str, default: float) -> float:
        """Return a setting that is a number. Brokers of other versions may not have it."""
        return _first_number(self.config.get(name, ""), default)

    @property
    def clock_ahead_ms(self) -> int | None:
        """How far the broker's clock is ahead of ours. None: it does not tell its time."""
        uptime = _UPTIME.search(self.runtime.get("runtime", ""))
        started_ms = int(self.figure("bootTimestamp"))
        if uptime is None or not started_ms or not self.asked_ms:
            return None
        days, hours, minutes, seconds = map(int, uptime.groups())
        up_ms = 1000 * (((days * 24 + hours) * 60 + minutes) * 60 + seconds)
        return started_ms + up_ms + _UPTIME_ROUNDING_MS - self.asked_ms


class MessageSample(NamedTuple):
    """What is looked at of a recent message."""

    tag: str
    born_ms: int
    stored_ms: int
    born_host: str


class TopicPlace(NamedTuple):
    """A topic at one broker, as clients see it in the route."""

    broker_name: str
    cluster: str
    read_queues: int
    write_queues: int
    permission: str  # rw, r, w or -


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic. Without places, no nameserver has a route of it."""

    topic: str
    places: Sequence[TopicPlace] = ()
    holders: Sequence[str] = ()  # masters that have the topic, asked when there is no route
    samples: Sequence[MessageSample] = ()  # the newest messages
    has_more: bool = False  # messages than those of the samples


class SubscriptionFacts(NamedTuple):
    """A subscription of a group, as a member or a broker tells it."""

    topic: str
    expression: str
    kind: str  # TAG or SQL92
    who: str  # client id of the member; empty: a broker


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group. `brokers_disabled` and `brokers_without_broadcast` name brokers whose settings of the group forbid it."""

    group: str
    look: GroupLook
    brokers_disabled: Sequence[str] = ()
    brokers_without_broadcast: Sequence[str] = ()
    subscriptions: Sequence[SubscriptionFacts] = ()
    models: Mapping[str, bool] = field(default_factory=dict)  # client id -> whether it broadcasts, of members that tell


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything that the rules look at."""

    nameservers: Sequence[NameserverFacts] = ()
    brokers: Sequence[BrokerFacts] = ()
    brokers_before: Mapping[str, BrokerFacts] = field(default_factory=dict)  # by address, at the first of two looks
    topics: Sequence[TopicFacts] = ()
    topic_names: Sequence[str] = ()  # all that the nameservers have
    groups: Sequence[GroupFacts] = ()
    groups_missing: Sequence[str] = ()  # that were asked for
    group_names: Sequence[str] = ()
    backlog: Sequence[GroupBacklog] = ()
    reserved_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def answering(self) -> list[BrokerFacts]:
        return [broker for broker in self.brokers if not broker.error and not broker.refusal]

    @property
    def masters(self) -> list[BrokerFacts]:
        return [broker for broker in self.brokers if broker.is_master]

    def topic(self, name: str) -> TopicFacts | None:
        return next((topic for topic in self.topics if topic.topic == name), None)


def _first_number(text: str, default: float) -> float:
    found = _NUMBER.match(text.strip())
    return float(found[0]) if found else default
