"""Heartbeats and group membership.

34              heartbeat
35              a client leaves its groups
38, 203, 204    members of a group; 328 all producers
46              check of a subscription
40              sent by the broker: the members of a group changed, rebalance
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.tables.clients import GroupMember
from skyrocket.net.connection import Connection
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerConnection,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LanguageCode,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from skyrocket.protocol.bodies import Connection as ClientConnection
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.headers import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetProducerConnectionListRequestHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TOPIC_UNIT_SUB
from skyrocket.protocol.system_names import retry_topic

outside = OutsideLog(logging.getLogger(__name__))


class HeartbeatHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._clients = context.clients
        self._groups = context.groups
        self._topics = context.topics
        self._filters = context.filters
        self._now_ms = context.now_ms
        self._wall_ms = context.wall_ms

    def register(self, router: Router) -> None:
        router.add(RequestCode.HEART_BEAT, self.heartbeat)
        router.add(RequestCode.UNREGISTER_CLIENT, self.unregister)
        router.add(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumer_list)
        router.add(RequestCode.CHECK_CLIENT_CONFIG, self.check_config)
        router.add(RequestCode.GET_CONSUMER_CONNECTION_LIST, self.consumer_connections)
        router.add(RequestCode.GET_PRODUCER_CONNECTION_LIST, self.producer_connections)
        router.add(RequestCode.GET_ALL_PRODUCER_INFO, self.all_producers)

    def drop_connection(self, connection: Connection) -> None:
        """Remove a closed connection from its groups, and notify the other members."""
        self._notify(self._clients.remove_connection(connection))

    def check_time(self) -> None:
        """Remove clients whose heartbeats stopped, and close their connections. Call it every few seconds."""
        connections, groups = self._clients.remove_silent(self._now_ms())
        for connection in connections:
            connection.close("it sent no heartbeat")
        self._notify(groups)

    def _notify(self, groups: Iterable[str]) -> None:
        """Tell each member that its group changed, so that it rebalances."""
        for group in groups:
            config = self._groups.get(group)
            if config is not None and not config.notify_consumer_ids_changed_enable:
                continue
            fields = NotifyConsumerIdsChangedRequestHeader(consumer_group=group).to_fields()
            for connection in self._clients.connections_to_notify(group):
                connection.oneway(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields=fields))

    # --- heartbeats

    def heartbeat(self, command: Command, connection: Connection) -> Command:
        if not command.body:
            raise BodyError("A heartbeat has no body.")
        data = decode_request(command.body, HeartbeatData)
        now_ms = self._now_ms()
        changed: list[str] = []
        resend = not data.heartbeat_fingerprint
        for consumer in data.consumer_data_set:
            if not self._create_group(consumer):
                continue
            # One object a group: a client leaves each group, and may fall silent in it, separately.
            member = GroupMember(connection, data.client_id, command.language, command.version)
            is_short = bool(data.heartbeat_fingerprint) and data.without_sub
            if self._clients.register_consumer(member, consumer, now_ms, with_subscriptions=not is_short):
                changed.append(consumer.group_name)
            resend |= self._clients.update_fingerprint(consumer.group_name, data.heartbeat_fingerprint)
            resend |= is_short and self._lacks_subscriptions(consumer.group_name)
        for producer in data.producer_data_set:
            member = GroupMember(connection, data.client_id, command.language, command.version)
            self._clients.register_producer(producer.group_name, member, now_ms)
        self._notify(changed)
        return command.response(
            ResponseCode.SUCCESS, HeartbeatResponseHeader(is_support_heart_beat_v2=True, is_sub_change=resend)
        )

    def _create_group(self, consumer: ConsumerData) -> bool:
        """Create the group and its retry topic; return False when the group may not exist. The rest of the heartbeat counts."""
        config = self._groups.for_consumer(consumer.group_name)
        if config is None:
            outside.info(
                "Ignored a consumer of group '%s': the group does not exist. Create it, or set autoCreateSubscriptionGroup.",
                consumer.group_name,
            )
            return False
        order = any(self._topics.is_order(data.topic) for data in consumer.subscription_data_set)
        sys_flag = TOPIC_UNIT_SUB if consumer.unit_mode else 0
        self._topics.create_for_group(retry_topic(consumer.group_name), config.retry_queue_nums, order=order, sys_flag=sys_flag)
        return True

    def _lacks_subscriptions(self, group: str) -> bool:
        """Whether the client must resend its subscriptions, because the broker restarted since it sent them."""
        found = self._clients.group(group)
        return found is not None and not found.subscriptions

    def unregister(self, command: Command, connection: Connection) -> Command:
        header = command.header(UnregisterClientRequestHeader)
        if header.producer_group is not None:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group is not None and self._clients.unregister_consumer(header.consumer_group, connection):
            self._notify([header.consumer_group])
        return command.response(ResponseCode.SUCCESS)

    def check_config(self, command: Command, _connection: Connection) -> Command:
        """Check whether a consumer may subscribe like this."""
        wanted = decode_request(command.body, CheckClientRequestBody).subscription_data if command.body else None
        if wanted is not None:
            self._filters.check(wanted)
        return command.response(ResponseCode.SUCCESS)

    # --- members

    def consumer_list(self, command: Command, _connection: Connection) -> Command:
        name = command.header(GetConsumerListByGroupRequestHeader).consumer_group
        group = self._clients.group(name)
        if group is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Group '{name[:160]}' has no consumer here.")
        body = GetConsumerListByGroupResponseBody(consumer_id_list=group.client_ids)
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    def consumer_connections(self, command: Command, _connection: Connection) -> Command:
        name = command.header(GetConsumerConnectionListRequestHeader).consumer_group
        group = self._clients.group(name)
        if group is None:
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, f"Group '{name[:160]}' has no consumer here.")
        body = ConsumerConnection(
            connection_set=[_describe_connection(member) for member in group.members.values()],
            subscription_table=group.subscriptions,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    def producer_connections(self, command: Command, _connection: Connection) -> Command:
        name = command.header(GetProducerConnectionListRequestHeader).producer_group
        members = self._clients.producers(name)
        if members is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Group '{name[:160]}' has no producer here.")
        body = ProducerConnection(connection_set=[_describe_connection(member) for member in members])
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    def all_producers(self, command: Command, _connection: Connection) -> Command:
        ahead_ms = self._wall_ms() - self._now_ms()  # heartbeats are stamped by a clock that never jumps
        body = ProducerTableInfo(
            data={
                group: [
                    ProducerInfo(
                        client_id=member.client_id,
                        remote_ip=f"/{member.connection.peer_text}",  # the form of Java's InetSocketAddress
                        language=LanguageCode[member.language.name],
                        version=member.version,
                        last_update_timestamp=member.heard_ms + ahead_ms,
                    )
                    for member in members
                ]
                for group, members in self._clients.all_producers.items()
            }
        )
        return command.response(ResponseCode.SUCCESS, body=encode(body))


def _describe_connection(member: GroupMember[Connection]) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.connection.peer_text,
        language=LanguageCode[member.language.name],
        version=member.version,
    )
