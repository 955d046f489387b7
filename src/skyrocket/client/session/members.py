"""The members of a session: its producers and consumers, as the heartbeat lists them.

A broker sends its own requests (transaction checks, offset resets, rebalance notices) over the connection that the client opened.
Each request names a group, and the member of that group handles it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.net.connection import Connection
from skyrocket.net.router import Answer, Handler, RefusedError, Router
from skyrocket.protocol.bodies import ConsumerData, HeartbeatData, ProducerData
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    ResetOffsetRequestHeader,
)
from skyrocket.protocol.message.properties import PRODUCER_GROUP, decode_properties
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True, kw_only=True)
class SessionMember:
    """A producer or a consumer. A consumer has `consumer_data`, which returns its subscriptions for each heartbeat.

    `group` and `topics` are names on the wire. `handlers` serve the requests that brokers send to the group (the codes of
    `GROUP_OF`); a one-way request needs no response.
    """

    group: str
    consumer_data: Callable[[], ConsumerData] | None = None
    topics: Callable[[], Iterable[str]] = tuple  # whose routes the session keeps fresh for it
    handlers: Mapping[int, Handler] = field(default_factory=dict)
    on_route_changed: Callable[[str], None] | None = None  # called with the topic
    on_connected: Callable[[str], None] | None = None  # called with a broker's address after each new connection


def _group_of_half_message(command: Command) -> str:
    return decode_properties(decode_record(command.body).properties).get(PRODUCER_GROUP, "")


GROUP_OF: Final[Mapping[int, Callable[[Command], str]]] = {
    RequestCode.CHECK_TRANSACTION_STATE: _group_of_half_message,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda command: command.header(NotifyConsumerIdsChangedRequestHeader).consumer_group,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: lambda command: command.header(ResetOffsetRequestHeader).group,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: lambda command: command.header(GetConsumerStatusRequestHeader).group,
    RequestCode.GET_CONSUMER_RUNNING_INFO: lambda command: command.header(GetConsumerRunningInfoRequestHeader).consumer_group,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda command: (
        command.header(ConsumeMessageDirectlyResultRequestHeader).consumer_group
    ),
}


class SessionMembers:
    """The producers and consumers of a session. Producers may share a group; a consumer group has one member."""

    def __init__(self, client_id: str, router: Router) -> None:
        self._client_id = client_id
        self._members: list[SessionMember] = []
        for code in GROUP_OF:
            router.add(code, self._dispatch)

    def __iter__(self) -> Iterator[SessionMember]:
        return iter(list(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: SessionMember) -> None:
        if member.consumer_data is not None and self.has_consumer(member.group):
            raise ConfigurationError(f"Consumer group '{member.group}' has a member in this session already.")
        self._members.append(member)

    def remove(self, member: SessionMember) -> bool:
        """Remove a member. Return True when it was the last producer, or the last consumer, of its group."""
        self._members.remove(member)
        kind = member.consumer_data is None
        return not any(other.group == member.group and (other.consumer_data is None) == kind for other in self._members)

    def has_consumer(self, group: str) -> bool:
        return any(member.group == group and member.consumer_data is not None for member in self._members)

    @property
    def have_consumers(self) -> bool:
        return any(member.consumer_data is not None for member in self._members)

    def heartbeat(self) -> HeartbeatData:
        producers = dict.fromkeys(member.group for member in self._members if member.consumer_data is None)
        return HeartbeatData(
            client_id=self._client_id,
            producer_data_set=[ProducerData(group_name=group) for group in producers],
            consumer_data_set=[member.consumer_data() for member in self._members if member.consumer_data is not None],
        )

    def topics(self) -> set[str]:
        return {topic for member in self._members for topic in member.topics()}

    def notify_route_changed(self, topic: str) -> None:
        for member in list(self._members):
            if member.on_route_changed is not None:
                member.on_route_changed(topic)

    def notify_connected(self, address: str) -> None:
        for member in list(self._members):
            if member.on_connected is not None:
                member.on_connected(address)

    def _dispatch(self, command: Command, connection: Connection) -> Answer | Coroutine[Any, Any, Answer]:
        """Hand a broker's request to the member of the group that it names."""
        group = GROUP_OF[command.code](command)
        for member in self._members:
            handler = member.handlers.get(command.code) if member.group == group else None
            if handler is not None:
                return handler(command, connection)
        log.info("%s sent request %d to group '%s', which has no member here.", connection.peer_text, command.code, group)
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Group '{group}' has no member in this client.")
