"""Connected clients: the producers and consumers of each group, as their heartbeats report them.

    register_consumer(member, data, now_ms)     a consumer's heartbeat
    register_producer(group, member, now_ms)    a producer's heartbeat
    unregister_consumer / unregister_producer   a client leaves a group
    remove_connection(connection)               a connection closed
    remove_silent(now_ms)                       remove the clients whose heartbeats stopped

Each method returns whether, or which, consumer groups changed. `connections_to_notify` lists the members that must be notified
of such a change. The table uses connections as keys and never sends on them.
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
    SUBSCRIPTION_BYTES_MAX,
    SUBSCRIPTION_BYTES_PER_GROUP_MAX,
    SUBSCRIPTIONS_PER_GROUP_MAX,
)
from skyrocket.protocol.bodies import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from skyrocket.protocol.language import Language

SILENT_MS: Final = 120_000  # Apache's channelExpiredTimeout

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class GroupMember(Generic[C]):
    """A client in one group."""

    connection: C
    client_id: str
    language: Language
    version: int
    heard_ms: int = 0


@dataclass(slots=True)
class ConsumerGroup(Generic[C]):
    name: str
    members: dict[C, GroupMember[C]] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)  # by topic
    subscription_bytes: int = 0
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    fingerprint: int | None = None  # of the last heartbeat; a client that repeats it may leave out its subscriptions

    @property
    def client_ids(self) -> list[str]:
        """Return each client id once: a client that reconnected may still have its old connection in the group."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    @property
    def is_broadcasting(self) -> bool:
        return self.message_model is MessageModel.BROADCASTING


class SilentClients(NamedTuple, Generic[C]):
    """What `remove_silent` removed: connections to close, and the consumer groups that lost members."""

    connections: list[C]
    groups: list[str]


class ClientTable(Generic[C]):
    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup[C]] = {}
        self._producers: dict[str, dict[C, GroupMember[C]]] = {}
        self._consumer_groups: dict[C, set[str]] = {}  # by connection
        self._producer_groups: dict[C, set[str]] = {}
        self._producer_ids: dict[str, dict[C, int]] = {}  # client id -> connection -> its number of groups
        self._memberships = 0
        self._subscription_bytes = 0

    # --- lookups

    def group(self, group: str) -> ConsumerGroup[C] | None:
        """Return a consumer group; None when none of its consumers is connected."""
        return self._consumers.get(group)

    def has_group(self, group: str) -> bool:
        return group in self._consumers

    def is_broadcasting(self, group: str) -> bool:
        found = self._consumers.get(group)
        return found is not None and found.is_broadcasting

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def lacks_subscription(self, group: str, topic: str) -> bool:
        """Whether consumers of the group are connected and none of them subscribes to the topic."""
        found = self._consumers.get(group)
        return found is not None and bool(found.subscriptions) and topic not in found.subscriptions

    def subscribers_of(self, topic: str) -> list[str]:
        """Return the connected consumer groups that subscribe to a topic."""
        return [name for name, group in self._consumers.items() if topic in group.subscriptions]

    def member(self, group: str, client_id: str) -> GroupMember[C] | None:
        """Find a consumer by its client id. When it has several connections, return the newest."""
        found = self._consumers.get(group)
        if found is None:
            return None
        return next((member for member in reversed(found.members.values()) if member.client_id == client_id), None)

    def producers(self, group: str) -> list[GroupMember[C]] | None:
        found = self._producers.get(group)
        return None if found is None else list(found.values())

    def producer_connection(self, client_id: str) -> C | None:
        """Find the connection of a producer in any group. When it has several connections, return the newest."""
        connections = self._producer_ids.get(client_id)
        return None if connections is None else next(reversed(connections))

    @property
    def all_producers(self) -> dict[str, list[GroupMember[C]]]:
        return {group: list(members.values()) for group, members in self._producers.items()}

    def all_consumers(self) -> list[ConsumerGroup[C]]:
        """Return the groups that have connected consumers."""
        return list(self._consumers.values())

    def connections_to_notify(self, group: str) -> list[C]:
        """Return the connections to notify when a group changes: all members, or none when the group consumes by broadcasting.

        Broadcasting consumers do not share queues, so they have nothing to rebalance.
        """
        found = self._consumers.get(group)
        return [] if found is None or found.is_broadcasting else list(found.members)

    # --- heartbeats

    def register_consumer(
        self, member: GroupMember[C], data: ConsumerData, now_ms: int, *, with_subscriptions: bool = True
    ) -> bool:
        """Add or refresh a consumer; return whether the group's members or topics changed.

        Without `with_subscriptions`, the group keeps its known subscriptions.
        """
        _check_client_id(member.client_id)
        group = self._consumers.get(data.group_name)
        if with_subscriptions:
            self._check_subscriptions(data, 0 if group is None else group.subscription_bytes)
        joined = group is None or member.connection not in group.members
        if joined:
            self._join(self._consumer_groups, member.connection, data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        member.heard_ms = now_ms
        group.members[member.connection] = member
        return (self._subscribe(group, data.subscription_data_set) if with_subscriptions else False) or joined

    def _check_subscriptions(self, data: ConsumerData, known_bytes: int) -> None:
        name, count = data.group_name[:160], len(data.subscription_data_set)
        if count > SUBSCRIPTIONS_PER_GROUP_MAX:
            raise _too_many(f"Group '{name}' has {count} subscriptions", SUBSCRIPTIONS_PER_GROUP_MAX)
        size_bytes = sum(map(_size_of, data.subscription_data_set))
        if size_bytes > SUBSCRIPTION_BYTES_PER_GROUP_MAX:
            raise _too_many(f"The subscriptions of group '{name}' have {size_bytes} bytes", SUBSCRIPTION_BYTES_PER_GROUP_MAX)
        all_bytes = self._subscription_bytes - known_bytes + size_bytes
        if all_bytes > SUBSCRIPTION_BYTES_MAX:
            raise _too_many(f"With group '{name}' the subscriptions of all groups have {all_bytes} bytes", SUBSCRIPTION_BYTES_MAX)

    def _subscribe(self, group: ConsumerGroup[C], wanted: list[SubscriptionData]) -> bool:
        is_changed = _replace_subscriptions(group, wanted)
        size_bytes = sum(map(_size_of, group.subscriptions.values()))
        self._subscription_bytes += size_bytes - group.subscription_bytes
        group.subscription_bytes = size_bytes
        return is_changed

    def update_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Store the fingerprint of a heartbeat; return whether it differs from the previous one."""
        found = self._consumers.get(group)
        if found is None:
            return False
        before, found.fingerprint = found.fingerprint, fingerprint
        return before is not None and before != fingerprint

    def register_producer(self, group: str, member: GroupMember[C], now_ms: int) -> None:
        """Add or refresh a producer."""
        _check_client_id(member.client_id)
        if len(group) > PRODUCER_GROUP_NAME_LENGTH_MAX:
            raise _too_many(f"A producer group's name has {len(group)} characters", PRODUCER_GROUP_NAME_LENGTH_MAX)
        known = self._producers.get(group, {}).get(member.connection)
        if known is None:
            self._join(self._producer_groups, member.connection, group)
        else:
            self._forget_client_id(known)
        member.heard_ms = now_ms
        self._producers.setdefault(group, {})[member.connection] = member
        connections = self._producer_ids.setdefault(member.client_id, {})
        connections[member.connection] = connections.get(member.connection, 0) + 1

    def _forget_client_id(self, producer: GroupMember[C]) -> None:
        """Count one group less for the producer's client id and connection."""
        connections = self._producer_ids[producer.client_id]
        connections[producer.connection] -= 1
        if not connections[producer.connection]:
            del connections[producer.connection]
        if not connections:
            del self._producer_ids[producer.client_id]

    def _join(self, groups_of: dict[C, set[str]], connection: C, group: str) -> None:
        if self._memberships >= MEMBERSHIPS_MAX:
            raise _too_many(f"Clients are in groups {self._memberships} times", MEMBERSHIPS_MAX)
        groups = groups_of.get(connection, set())
        if len(groups) >= GROUPS_PER_CONNECTION_MAX:
            raise _too_many(f"One client is in {len(groups)} groups", GROUPS_PER_CONNECTION_MAX)
        groups.add(group)
        groups_of[connection] = groups
        self._memberships += 1

    # --- leaving

    def unregister_consumer(self, group: str, connection: C) -> bool:
        """Remove a member; return False when it was not in the group."""
        found = self._consumers.get(group)
        if found is None or found.members.pop(connection, None) is None:
            return False
        if not found.members:
            self._subscription_bytes -= found.subscription_bytes
            del self._consumers[group]
        self._leave(self._consumer_groups, connection, group)
        return True

    def unregister_producer(self, group: str, connection: C) -> bool:
        """Remove a member; return False when it was not in the group."""
        members = self._producers.get(group)
        member = None if members is None else members.pop(connection, None)
        if members is None or member is None:
            return False
        if not members:
            del self._producers[group]
        self._leave(self._producer_groups, connection, group)
        self._forget_client_id(member)
        return True

    def _leave(self, groups_of: dict[C, set[str]], connection: C, group: str) -> None:
        groups = groups_of[connection]
        groups.discard(group)
        if not groups:
            del groups_of[connection]
        self._memberships -= 1

    def remove_connection(self, connection: C) -> list[str]:
        """Remove a connection from all its groups; return the consumer groups that it was in."""
        left = sorted(self._consumer_groups.get(connection, ()))
        for group in left:
            self.unregister_consumer(group, connection)
        for group in list(self._producer_groups.get(connection, ())):
            self.unregister_producer(group, connection)
        return left

    def remove_silent(self, now_ms: int) -> SilentClients[C]:
        """Remove every member that has sent no heartbeat for its group for SILENT_MS."""
        connections: dict[C, None] = {}
        groups: dict[str, None] = {}
        for name, group in list(self._consumers.items()):
            for connection in _silent_connections(group.members, now_ms):
                self.unregister_consumer(name, connection)
                connections[connection] = groups[name] = None
        for name, members in list(self._producers.items()):
            for connection in _silent_connections(members, now_ms):
                self.unregister_producer(name, connection)
                connections[connection] = None
        return SilentClients(list(connections), list(groups))


def _silent_connections(members: dict[C, GroupMember[C]], now_ms: int) -> list[C]:
    return [connection for connection, member in members.items() if now_ms - member.heard_ms > SILENT_MS]


def _size_of(data: SubscriptionData) -> int:
    """Return about how many bytes a subscription takes."""
    text_bytes = len(data.topic) + len(data.sub_string or "") + len(data.expression_type)
    return text_bytes + sum(map(len, data.tags_set)) + 8 * (len(data.tags_set) + len(data.code_set))


def _replace_subscriptions(group: ConsumerGroup[C], wanted: list[SubscriptionData]) -> bool:
    """Replace the group's subscriptions; return whether its topics changed. The newest subscription of a topic counts."""
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
