"""Who is connected, and what for: producers and consumers by group, as their heartbeats say.

    consumes(member, data, now_ms)          a heartbeat of a consumer
    produces(group, member, now_ms)         a heartbeat of a producer
    leaves_consumers / leaves_producers     it said goodbye
    disconnected(connection)                its connection ended
    silent(now_ms)                          who has not been heard of for too long?

Each answers whether the group's members or topics changed; `to_tell` says who must hear of that. Connections are only keys here.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from skyrocket.broker.errors import TableFullError
from skyrocket.broker.limits import (
    CLIENT_ID_LENGTH_MAX,
    GROUPS_PER_CONNECTION_MAX,
    MEMBERSHIPS_MAX,
    PRODUCER_GROUP_NAME_LENGTH_MAX,
    SUBSCRIPTIONS_PER_GROUP_MAX,
)
from skyrocket.protocol.bodies import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from skyrocket.protocol.language import Language

SILENT_MS: Final = 120_000  # Apache's channelExpiredTimeout

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class Member(Generic[C]):
    """A client in a group."""

    connection: C
    client_id: str
    language: Language
    version: int
    heard_ms: int = 0


@dataclass(slots=True)
class ConsumerGroup(Generic[C]):
    name: str
    members: dict[C, Member[C]] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)  # by topic
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    fingerprint: int | None = None  # of the last heartbeat; a client that sends it again need not send its subscriptions

    @property
    def client_ids(self) -> list[str]:
        """Each once: a client that came back may be there under its old connection too."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


class Silent(NamedTuple, Generic[C]):
    """What `silent` found: connections to close, and consumer groups that lost members."""

    connections: list[C]
    groups: list[str]


class ClientTable(Generic[C]):
    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup[C]] = {}
        self._producers: dict[str, dict[C, Member[C]]] = {}
        self._consumer_groups: dict[C, set[str]] = {}  # of a connection
        self._producer_groups: dict[C, set[str]] = {}
        self._producer_ids: dict[str, dict[C, int]] = {}  # client id -> its connections, and in how many groups each is
        self._memberships = 0

    # --- looking

    def group(self, group: str) -> ConsumerGroup[C] | None:
        """A group of consumers, if any is here."""
        return self._consumers.get(group)

    def has_group(self, group: str) -> bool:
        return group in self._consumers

    def is_broadcasting(self, group: str) -> bool:
        found = self._consumers.get(group)
        return found is not None and found.is_broadcasting

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def leaves_out(self, group: str, topic: str) -> bool:
        """Whether consumers of the group are here, and do not want the topic."""
        found = self._consumers.get(group)
        return found is not None and bool(found.subscriptions) and topic not in found.subscriptions

    def subscribers_of(self, topic: str) -> list[str]:
        """The groups that are here and want a topic."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def member(self, group: str, client_id: str) -> Member[C] | None:
        """Of a client with several connections, the newest."""
        found = self._consumers.get(group)
        if found is None:
            return None
        return next((member for member in reversed(found.members.values()) if member.client_id == client_id), None)

    def producers(self, group: str) -> list[Member[C]] | None:
        found = self._producers.get(group)
        return None if found is None else list(found.values())

    def producer_connection(self, client_id: str) -> C | None:
        """Of a client that produces, in whatever group; of several connections, the newest."""
        connections = self._producer_ids.get(client_id)
        return None if connections is None else next(reversed(connections))

    @property
    def all_producers(self) -> dict[str, list[Member[C]]]:
        return {group: list(members.values()) for group, members in self._producers.items()}

    def to_tell(self, group: str) -> list[C]:
        """Who must hear that a group changed: its members, unless each of them gets every message anyway."""
        found = self._consumers.get(group)
        return [] if found is None or found.is_broadcasting else list(found.members)

    # --- heartbeats

    def consumes(self, member: Member[C], data: ConsumerData, now_ms: int, *, with_subscriptions: bool = True) -> bool:
        """Whether the group's members or topics are others now. Without subscriptions, those that are known stay."""
        _check_client_id(member.client_id)
        if len(data.subscription_data_set) > SUBSCRIPTIONS_PER_GROUP_MAX:
            raise _too_many(
                f"Group '{data.group_name}' has {len(data.subscription_data_set)} subscriptions", SUBSCRIPTIONS_PER_GROUP_MAX
            )
        group = self._consumers.get(data.group_name)
        joined = group is None or member.connection not in group.members
        if joined:
            self._joins(self._consumer_groups, member.connection, data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        member.heard_ms = now_ms
        group.members[member.connection] = member
        return (_subscribe(group, data.subscription_data_set) if with_subscriptions else False) or joined

    def fingerprint(self, group: str, fingerprint: int) -> bool:
        """Remember a heartbeat's; whether it is another than the one before."""
        found = self._consumers.get(group)
        if found is None:
            return False
        before, found.fingerprint = found.fingerprint, fingerprint
        return before is not None and before != fingerprint

    def produces(self, group: str, member: Member[C], now_ms: int) -> None:
        _check_client_id(member.client_id)
        if len(group) > PRODUCER_GROUP_NAME_LENGTH_MAX:
            raise _too_many(f"A producer group's name has {len(group)} characters", PRODUCER_GROUP_NAME_LENGTH_MAX)
        known = self._producers.get(group, {}).get(member.connection)
        if known is None:
            self._joins(self._producer_groups, member.connection, group)
        else:
            self._unname(known)
        member.heard_ms = now_ms
        self._producers.setdefault(group, {})[member.connection] = member
        connections = self._producer_ids.setdefault(member.client_id, {})
        connections[member.connection] = connections.get(member.connection, 0) + 1

    def _unname(self, producer: Member[C]) -> None:
        """Its client id stands for its connection in one group less."""
        connections = self._producer_ids[producer.client_id]
        connections[producer.connection] -= 1
        if not connections[producer.connection]:
            del connections[producer.connection]
        if not connections:
            del self._producer_ids[producer.client_id]

    def _joins(self, groups_of: dict[C, set[str]], connection: C, group: str) -> None:
        if self._memberships >= MEMBERSHIPS_MAX:
            raise _too_many(f"Clients are in groups {self._memberships} times", MEMBERSHIPS_MAX)
        groups = groups_of.get(connection, set())
        if len(groups) >= GROUPS_PER_CONNECTION_MAX:
            raise _too_many(f"One client is in {len(groups)} groups", GROUPS_PER_CONNECTION_MAX)
        groups.add(group)
        groups_of[connection] = groups
        self._memberships += 1

    # --- leaving

    def leaves_consumers(self, group: str, connection: C) -> bool:
        """False when it was not there."""
        found = self._consumers.get(group)
        if found is None or found.members.pop(connection, None) is None:
            return False
        if not found.members:
            del self._consumers[group]
        self._left(self._consumer_groups, connection, group)
        return True

    def leaves_producers(self, group: str, connection: C) -> bool:
        """False when it was not there."""
        members = self._producers.get(group)
        member = None if members is None else members.pop(connection, None)
        if members is None or member is None:
            return False
        if not members:
            del self._producers[group]
        self._left(self._producer_groups, connection, group)
        self._unname(member)
        return True

    def _left(self, groups_of: dict[C, set[str]], connection: C, group: str) -> None:
        groups = groups_of[connection]
        groups.discard(group)
        if not groups:
            del groups_of[connection]
        self._memberships -= 1

    def disconnected(self, connection: C) -> list[str]:
        """The consumer groups that it leaves."""
        left = sorted(self._consumer_groups.get(connection, ()))
        for group in left:
            self.leaves_consumers(group, connection)
        for group in list(self._producer_groups.get(connection, ())):
            self.leaves_producers(group, connection)
        return left

    def silent(self, now_ms: int) -> Silent[C]:
        """Forget who has not sent a heartbeat for a group for too long."""
        connections: dict[C, None] = {}
        groups: dict[str, None] = {}
        for name, group in list(self._consumers.items()):
            for connection in _late(group.members, now_ms):
                self.leaves_consumers(name, connection)
                connections[connection] = groups[name] = None
        for name, members in list(self._producers.items()):
            for connection in _late(members, now_ms):
                self.leaves_producers(name, connection)
                connections[connection] = None
        return Silent(list(connections), list(groups))


def _late(members: dict[C, Member[C]], now_ms: int) -> list[C]:
    return [connection for connection, member in members.items() if now_ms - member.heard_ms > SILENT_MS]


def _subscribe(group: ConsumerGroup[C], wanted: list[SubscriptionData]) -> bool:
    """Whether the group's topics are others now. Of a topic's subscriptions, the newest counts."""
    topics = {data.topic for data in wanted}
    gone = group.subscriptions.keys() - topics
    for topic in gone:
        del group.subscriptions[topic]
    added = False
    for data in wanted:
        known = group.subscriptions.get(data.topic)
        added = added or known is None
        if known is None or data.sub_version > known.sub_version:
            group.subscriptions[data.topic] = data
    return added or bool(gone)


def _check_client_id(client_id: str) -> None:
    if len(client_id) > CLIENT_ID_LENGTH_MAX:
        raise _too_many(f"A client's id has {len(client_id)} characters", CLIENT_ID_LENGTH_MAX)


def _too_many(what: str, most: int) -> TableFullError:
    return TableFullError(f"{what}; {most} are allowed.")
