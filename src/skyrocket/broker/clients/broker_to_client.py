"""Requests that only a consumer can answer: the broker sends them over the consumer's connection and returns the answer.

307     running information of a consumer
309     have a consumer handle one message now
223     offsets as the consumers see them (asked with 221)
"""

from __future__ import annotations

import asyncio
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.tables.clients import GroupMember
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError, RequestTimeoutError
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import GetConsumerStatusBody, MessageQueue
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.headers import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

ASK_MS: Final = 10_000
ASK_EACH_MS: Final = 5_000  # for each consumer when a whole group is asked


class BrokerToClientHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._clients = context.clients
        self._groups = context.groups
        self._topics = context.topics
        self._store = context.store
        self._settings = context.settings

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_CONSUMER_RUNNING_INFO, self.running_info)
        router.add(RequestCode.CONSUME_MESSAGE_DIRECTLY, self.consume_directly)
        router.add(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, self.consumer_status)

    async def running_info(self, command: Command, _connection: Connection) -> Command:
        header = command.header(GetConsumerRunningInfoRequestHeader)
        member = self._member(header.consumer_group, header.client_id)
        return await self._ask(command, member, Command(command.code, fields=dict(command.fields)))

    async def consume_directly(self, command: Command, _connection: Connection) -> Command:
        header = command.header(ConsumeMessageDirectlyResultRequestHeader)
        member = self._member(header.consumer_group, header.client_id or "")
        offset = decode_offset_id(header.msg_id or "").physical_offset
        message = self._store.reading.view_at(offset)
        if message is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no message at {offset} in the log.")
        fields = {**command.fields, "brokerName": self._settings().broker_name}
        topic = self._topics.get(header.topic or "")
        if topic is not None:
            fields["topicSysFlag"] = str(topic.topic_sys_flag)
        group = self._groups.get(header.consumer_group)
        if group is not None:
            fields["groupSysFlag"] = str(group.group_sys_flag)
        return await self._ask(command, member, Command(command.code, fields=fields, body=bytes(message)))

    def _member(self, group: str, client_id: str) -> GroupMember[Connection]:
        member = self._clients.member(group, client_id)
        if member is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"Consumer '{client_id[:160]}' of group '{group[:160]}' is not here.")
        return member

    async def _ask(self, command: Command, member: GroupMember[Connection], question: Command) -> Command:
        try:
            answer = await member.connection.request(question, ASK_MS)
        except RequestTimeoutError as error:
            raise RefusedError(ResponseCode.CONSUME_MSG_TIMEOUT, f"Consumer '{member.client_id}': {error}") from error
        response = command.response(answer.code, body=answer.body, remark=answer.remark)
        response.fields = answer.fields
        return response

    async def consumer_status(self, command: Command, _connection: Connection) -> Command:
        """Return the offsets of one client, or of all members when none is named. A client that does not answer is left out."""
        header = command.header(GetConsumerStatusRequestHeader)
        group = self._clients.group(header.group)
        if group is None:
            raise RefusedError(ResponseCode.CONSUMER_NOT_ONLINE, f"Group '{header.group[:160]}' has no consumer here.")
        asked = [member for member in group.members.values() if not header.client_addr or member.client_id == header.client_addr]
        question = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group).to_fields()
        answers = await asyncio.gather(*(_offsets_of(member, dict(question)) for member in asked))
        table = {member.client_id: offsets for member, offsets in zip(asked, answers, strict=True) if offsets is not None}
        return command.response(ResponseCode.SUCCESS, body=encode(GetConsumerStatusBody(consumer_table=table)))


async def _offsets_of(member: GroupMember[Connection], fields: dict[str, str]) -> dict[MessageQueue, int] | None:
    question = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields=fields)
    try:
        answer = await member.connection.request(question, ASK_EACH_MS)
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return None
        body = await asyncio.to_thread(decode, answer.body, GetConsumerStatusBody)  # in fastjson's dialect: it takes a while
        return body.message_queue_table
    except (NetError, BodyError):
        return None
