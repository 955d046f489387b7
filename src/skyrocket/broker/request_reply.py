"""Request–reply: the broker pushes a reply (324, 325) to the requester's connection (326) and stores it in the reply topic.

    replier ──324/325──▶ broker ──326──▶ requester, named by the property REPLY_TO_CLIENT
       ◀──── result ───────┘└─▶ {cluster}_REPLY_TOPIC, whether or not the requester is connected

The replier gets SYSTEM_ERROR when the requester is not connected, does not answer or refuses. The reply is stored all the same.
"""

from __future__ import annotations

import logging

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TopicPendingError
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.headers import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, decode_properties, encode_properties
from skyrocket.protocol.message.record import Record, magic_for
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreError
from skyrocket.store.message import AppendResult

outside = OutsideLog(logging.getLogger(__name__))

PUSH_MS = 10_000  # for the requester to acknowledge the reply


class ReplyHandlers:
    def __init__(self, context: BrokerContext) -> None:
        self._clients = context.clients
        self._validator = context.send_validator
        self._internal_writer = context.internal_writer
        self._answers = context.answers
        self._settings = context.settings
        self._store_host = context.store_host
        self._wall_ms = context.wall_ms
        self._saver = context.saver

    def register(self, router: Router) -> None:
        router.add(RequestCode.SEND_REPLY_MESSAGE, self.reply)
        router.add(RequestCode.SEND_REPLY_MESSAGE_V2, self.reply)

    async def reply(self, command: Command, connection: Connection) -> Command | None:
        """Push and store a reply. A success is answered once what was stored is confirmed."""
        self._answers.check_room()
        header = _header_of(command)
        try:
            queue_id = self._validator.choose_queue(header, connection)
        except TopicPendingError:
            await self._saver.wait_until_saved()
            queue_id = self._validator.choose_queue(header, connection)
        problem = await self._push(command, header, connection)
        settings = self._settings()
        placed = self._store_reply(command, header, queue_id, connection) if settings.store_replies else None
        answer = SendMessageResponseHeader(
            msg_id="0" if placed is None else f"{self._store_host.hex().upper()}{placed.physical_offset:016X}",
            queue_id=queue_id,
            queue_offset=0 if placed is None else placed.queue_offset,
            region_id=settings.region_id,
            trace_on=settings.trace_on,
        )
        if problem is not None:
            return command.response(ResponseCode.SYSTEM_ERROR, answer, remark=problem)
        response = command.response(ResponseCode.SUCCESS, answer)
        if placed is None or command.is_oneway:
            return response
        self._answers.send(placed.physical_offset + placed.size, connection, encode_command(response))
        return None

    # --- to the requester

    async def _push(self, command: Command, header: SendMessageRequestHeaderV2, replier: Connection) -> str | None:
        """Push the reply to its requester. Return what went wrong, or None."""
        properties = decode_properties(header.properties or "")
        client_id = properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            return f"The reply names no requester: the property {REPLY_TO_CLIENT} is missing."
        requester = self._clients.producer_connection(client_id)
        if requester is None:
            return f"The requester '{client_id[:160]}' is not connected to this broker."
        properties[PUSH_REPLY_TIME] = str(self._wall_ms())
        fields = self._push_header(header, properties, replier).to_fields()
        push = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields=fields, body=command.body)
        try:
            answer = await requester.request(push, PUSH_MS)
        except NetError as error:
            return f"The requester '{client_id[:160]}' did not acknowledge the reply: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"The requester '{client_id[:160]}' refused the reply: {answer.remark}"
        return None

    def _push_header(
        self, header: SendMessageRequestHeaderV2, properties: dict[str, str], replier: Connection
    ) -> ReplyMessageRequestHeader:
        return ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode or False,
            born_host=replier.peer_text,
            store_host=self._settings().address,
            store_timestamp=self._wall_ms(),
        )

    # --- to the reply topic

    def _store_reply(
        self, command: Command, header: SendMessageRequestHeaderV2, queue_id: int, replier: Connection
    ) -> AppendResult | None:
        """Store the reply.

        Apache drops the sys flag, and with it the compression bits; we keep it, so that readers can decompress.
        """
        record = Record(
            header.topic,
            command.body,
            (header.properties or "").encode(),
            queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=pack_host(*replier.peer),
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
            magic=magic_for(header.topic),
        )
        try:
            (placed,) = self._internal_writer.write([record])
        except (StoreError, RecordError) as error:
            outside.warning("A reply was not stored: %s", error)
            return None
        return placed


def _header_of(command: Command) -> SendMessageRequestHeaderV2:
    if command.code == RequestCode.SEND_REPLY_MESSAGE:
        return command.header(SendMessageRequestHeader).to_v2()
    return command.header(SendMessageRequestHeaderV2)


def install(context: BrokerContext) -> None:
    """Register the requests that carry replies (324, 325)."""
    ReplyHandlers(context).register(context.router)
