"""The general path of sends (request codes 10, 310 and 320): all sends of a read event go into the store with one append.

    validate each send → one append → [sync flush: wait] → a response to each

With sync flush the responses are parked until the horizon has passed their messages (`parked_answers`).
"""

from __future__ import annotations

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError, TopicPendingError
from skyrocket.broker.send.responses import send_response
from skyrocket.broker.send.validation import AcceptedSend
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import SendMessageResponseHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreError
from skyrocket.store.horizon import MAJORITY
from skyrocket.store.message import AppendRequest, AppendResult


class SendHandler:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._validator = context.send_validator
        self._settings = context.settings
        self._id_prefix = context.store_host.hex().upper()
        self._wall_ms = context.wall_ms
        self._on_appended = context.on_appended
        self._counters = context.counters
        self._answers = context.answers
        self._router = context.router
        self._deferred_sends = context.deferred_sends
        self._is_group = context.store.horizon.requires(MAJORITY)  # then a send always waits for the majority

    def register(self, router: Router) -> None:
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        router.add_group(codes, self.handle)

    def handle(self, commands: list[Command], connection: Connection) -> None:
        """Store and answer neighbouring sends of a read event."""
        try:
            self._answers.check_room()
        except RefusedError as error:
            for command in commands:
                self._router.refuse(connection, command, error)
            return
        accepted: list[AcceptedSend] = []
        messages: list[AppendRequest] = []
        deferred: list[Command] = []
        for command in commands:
            try:
                send = self._validator.accept(command, connection)
            except TopicPendingError:
                deferred.append(command)
            except (RefusedError, TableError, ProtocolError) as error:
                self._router.refuse(connection, command, error)
            else:
                accepted.append(send)
                messages += send.messages
        if deferred:
            self._deferred_sends.defer(deferred, connection, self.handle)
        if not messages:
            return
        try:
            placed = self._store.append(messages, self._wall_ms())
        except StoreError as error:
            for send in accepted:
                self._router.refuse(connection, send.command, error)
            return
        self._answer(accepted, placed, connection)
        self._counters.count_put(messages)
        self._on_appended()

    def _answer(self, accepted: list[AcceptedSend], placed: list[AppendResult], connection: Connection) -> None:
        settings = self._settings()
        at = 0
        for send in accepted:
            places = placed[at : at + len(send.messages)]
            at += len(places)
            if send.command.is_oneway:
                continue
            answer = self._success(send, places, settings)
            if send.waits_for_flush or self._is_group:
                last = places[-1]
                self._answers.send(last.physical_offset + last.size, connection, answer)
            else:
                connection.send(answer)

    def _success(self, send: AcceptedSend, places: list[AppendResult], settings: BrokerSettings) -> bytes:
        message_id = ",".join([f"{self._id_prefix}{place.physical_offset:016X}" for place in places])
        command, unique_key = send.command, send.unique_key
        if command.serialization is Serialization.JSON and (unique_key.isalnum() or not unique_key):
            ids = (message_id.encode(), unique_key.encode())
            offset, handle = places[0].queue_offset, send.recall_handle
            return send_response(command.opaque, send.queue_id, offset, ids, settings.region_id, settings.trace_on, handle)
        header = SendMessageResponseHeader(
            msg_id=message_id,
            queue_id=send.queue_id,
            queue_offset=places[0].queue_offset,
            transaction_id=unique_key,
            recall_handle=send.recall_handle,
            region_id=settings.region_id,
            trace_on=settings.trace_on,
        )
        return encode_command(command.response(ResponseCode.SUCCESS, header))
