"""RECALL_MESSAGE (370): a producer recalls a timed message, by the handle in the response to its send.

The broker stores a message that names the recalled one (TIMER_DEL_UNIQKEY) in the same timer slot. When the slot is due,
recalls are read first. So an acknowledged recall survives restarts, also under Apache's broker, and needs no search.
"""

from __future__ import annotations

from msgspec.structs import replace

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.timers import Timers
from skyrocket.broker.errors import TableError
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.headers import RecallMessageRequestHeader, RecallMessageResponseHeader
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.properties import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    TAGS,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
    encode_properties,
)
from skyrocket.protocol.message.recall_handle import RecallHandle, RecallHandleError, decode_recall_handle
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PERM_WRITE
from skyrocket.store.errors import StoreError
from skyrocket.store.message import append_request_of

_TAG = "_RECALL_TAG_"
_BODY = b"0"


class RecallHandler:
    def __init__(self, context: BrokerContext, timers: Timers) -> None:
        self._timers = timers
        self._topics = context.topics
        self._internal_writer = context.internal_writer
        self._answers = context.answers
        self._settings = context.settings
        self._store_host = context.store_host
        self._machine_ms = context.machine_ms
        self._router = context.router

    def register(self, router: Router) -> None:
        router.add_group((RequestCode.RECALL_MESSAGE,), self.handle)

    def handle(self, commands: list[Command], connection: Connection) -> None:
        for command in commands:
            try:
                self._recall(command, connection)
            except (RefusedError, TableError, ProtocolError, StoreError) as error:
                self._router.refuse(connection, command, error)

    def _recall(self, command: Command, connection: Connection) -> None:
        self._answers.check_room()
        header = command.header(RecallMessageRequestHeader)
        handle = self._check(header)
        [place] = self._internal_writer.write_encoded([append_request_of(self._record(header, handle, connection))])
        answer = command.response(ResponseCode.SUCCESS, RecallMessageResponseHeader(msg_id=handle.unique_key))
        self._answers.send(place.physical_offset + place.size, connection, encode_command(answer))

    def _check(self, header: RecallMessageRequestHeader) -> RecallHandle:
        settings = self._settings()
        if not settings.recall_enabled:
            raise RefusedError(ResponseCode.NO_PERMISSION, "This broker does not recall messages: recallMessageEnable is false.")
        if not settings.permission & PERM_WRITE and not settings.recall_when_not_writable:
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, f"Broker {settings.broker_name} is not writable.")
        if self._topics.get(header.topic) is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"Topic '{header.topic}' does not exist.")
        try:
            handle = decode_recall_handle(header.recall_handle)
        except RecallHandleError as error:
            raise _illegal(str(error)) from error
        if handle.topic != header.topic:
            raise _illegal(f"The recall handle belongs to topic '{handle.topic[:160]}', not to '{header.topic}'.")
        if handle.broker_name != settings.broker_name:
            raise _illegal(f"The recall handle belongs to broker '{handle.broker_name[:160]}', not to {settings.broker_name}.")
        left_ms = handle.time_ms - self._machine_ms()
        if not 0 < left_ms < settings.timer_delay_sec_max * 1000:
            raise _illegal("The message is already due, or due later than a message may wait.")
        return handle

    def _record(self, header: RecallMessageRequestHeader, handle: RecallHandle, connection: Connection) -> Record:
        now_ms = self._machine_ms()
        key = f"{handle.topic}+{handle.unique_key}" if self._settings().timer_delete_key_has_topic else handle.unique_key
        properties = {
            TAGS: _TAG,
            TIMER_DELETE_UNIQUE_KEY: key,
            UNIQUE_KEY: handle.unique_key,
            TIMER_DELIVER_MS: str(handle.time_ms),
            BORN_TIMESTAMP: str(now_ms),
        }
        if header.producer_group:
            properties[PRODUCER_GROUP] = header.producer_group
        born_host = pack_host(*connection.peer)
        record = Record(handle.topic, _BODY, born_timestamp=now_ms, born_host=born_host, store_host=self._store_host)
        waiting = self._timers.time(record, properties)
        if waiting is None:  # it became due a moment ago
            raise _illegal("The message is already due.")
        return replace(waiting, properties=encode_properties(properties))


def _illegal(sentence: str) -> RefusedError:
    return RefusedError(ResponseCode.ILLEGAL_OPERATION, sentence)
