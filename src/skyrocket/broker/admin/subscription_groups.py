"""Subscription groups: create and change (200, 225), delete (207), list and describe (201, 352), forbid a topic (353), and query
subscribed topics (343, 345).
"""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import GroupNotFoundError
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import (
    GroupForbidden,
    QuerySubscriptionResponseBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicList,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode_request, encode
from skyrocket.protocol.headers import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode


class SubscriptionGroupHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._groups = context.groups
        self._saver = context.saver
        self._offsets = context.offsets
        self._clients = context.clients
        self._settings = context.settings

    def register(self, router: Router) -> None:
        router.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, self.put)
        router.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, self.put_list)
        router.add(RequestCode.DELETE_SUBSCRIPTIONGROUP, self.delete)
        router.add(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self.all_configs)
        router.add(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, self.config)
        router.add(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, self.forbid)
        router.add(RequestCode.QUERY_TOPICS_BY_CONSUMER, self.topics)
        router.add(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, self.subscription)

    # --- changes

    async def put(self, command: Command, _connection: Connection) -> Command:
        """Create or change a group, and answer when that is on disk. Like Apache's broker, ignore a request without a body."""
        if command.body:
            self._groups.put(decode_request(command.body, SubscriptionGroupConfig))
            await self._saver.wait_until_saved()
        return command.response(ResponseCode.SUCCESS)

    async def put_list(self, command: Command, _connection: Connection) -> Command:
        wanted = decode_request(command.body, SubscriptionGroupList).group_config_list if command.body else None
        if wanted is None:
            raise BodyError("A request to make groups has no list of them.")
        self._groups.put_all(wanted)
        await self._saver.wait_until_saved()
        return command.response(ResponseCode.SUCCESS)

    async def delete(self, command: Command, _connection: Connection) -> Command:
        header = command.header(DeleteSubscriptionGroupRequestHeader)
        self._groups.delete(header.group_name)
        if header.clean_offset:
            self._offsets.remove_group(header.group_name)
        await self._saver.wait_until_saved()
        return command.response(ResponseCode.SUCCESS)

    async def forbid(self, command: Command, _connection: Connection) -> Command:
        header = command.header(UpdateGroupForbiddenRequestHeader)
        if header.readable is not None:
            self._groups.forbid(header.group, header.topic, forbidden=not header.readable)
            await self._saver.wait_until_saved()
        readable = not self._groups.is_forbidden(header.group, header.topic)
        body = GroupForbidden(topic=header.topic, group=header.group, readable=readable)
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    # --- queries

    def all_configs(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetAllSubscriptionGroupRequestHeader)
        names: list[str] | None = None
        if (header.data_version, header.group_seq, header.max_group_num) != (None, None, None):
            names = self._groups.page(header.data_version, header.group_seq, header.max_group_num)
        count = GetAllSubscriptionGroupResponseHeader(total_group_num=len(self._groups))
        return command.response(ResponseCode.SUCCESS, count, body=encode(self._groups.snapshot(names)))

    def config(self, command: Command, _connection: Connection) -> Command:
        """Return a group's settings. Like Apache's broker, create the group if the settings allow that for consumers."""
        group = command.header(GetSubscriptionGroupConfigRequestHeader).group
        config = self._groups.for_consumer(group)
        if config is None:
            raise GroupNotFoundError(f"There is no group '{group[:160]}'.")
        return command.response(ResponseCode.SUCCESS, body=encode(config))

    def topics(self, command: Command, _connection: Connection) -> Command:
        group = command.header(QueryTopicsByConsumerRequestHeader).group
        body = TopicList(topic_list=self._offsets.topics_of(group), broker_addr=self._settings().address)
        return command.response(ResponseCode.SUCCESS, body=encode(body))

    def subscription(self, command: Command, _connection: Connection) -> Command:
        header = command.header(QuerySubscriptionByConsumerRequestHeader)
        if header.topic is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "A question about a subscription names no topic.")
        found = self._clients.subscription(header.group, header.topic)
        body = QuerySubscriptionResponseBody(subscription_data=found, group=header.group, topic=header.topic)
        return command.response(ResponseCode.SUCCESS, body=encode(body))
