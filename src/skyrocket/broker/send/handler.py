"""Sends: 10, 310 and 320. All that a read event brought from a connection goes into the store with one append.

    check each (intake) → one append → [sync flush: wait] → one write with all answers

With sync flush the answers are parked until the horizon has passed their messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from skyrocket.broker.errors import BrokerError
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.responses import send_response
from skyrocket.broker.send.validation import Intake, Sent
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
from skyrocket.store.message import AppendRequest, AppendResult
from skyrocket.store.message_store import MessageStore

SYNC_FLUSH_TIMEOUT_MS = 5_000  # Apache's syncFlushTimeout: then the producer is told that the message is stored, not flushed
PARKED_ANSWERS_MAX = 100_000


class _Parked(NamedTuple):
    """An answer that leaves when everything before `position` is confirmed."""

    position: int
    since_ms: int
    connection: Connection
    requests: Callable[[], Iterable[Command]]  # that it answers: they get another answer when this one comes too late
    answer: bytes


class SendHandler:
    def __init__(
        self,
        store: MessageStore,
        intake: Intake,
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        wall_ms: Callable[[], int],
        on_appended: Callable[[], None],
        counters: Counters,
    ) -> None:
        """`on_appended` is called after each append: it wakes whoever waits for messages, and the flusher."""
        self._store = store
        self._intake = intake
        self._settings = settings
        self._id_prefix = store_host.hex().upper()
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._counters = counters
        self._parked: deque[_Parked] = deque()

    def register(self, router: Router) -> None:
        self._router = router
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        router.add_group(codes, self.handle)

    # --- a read event's sends

    def handle(self, commands: list[Command], connection: Connection) -> None:
        accepted: list[Sent] = []
        messages: list[AppendRequest] = []
        for command in commands:
            try:
                sent = self._intake.accept(command, connection)
            except (RefusedError, BrokerError, ProtocolError) as error:
                self._router.refuse(connection, command, error)
            else:
                accepted.append(sent)
                messages += sent.messages
        if not messages:
            return
        try:
            placed = self._store.append(messages, self._wall_ms())
        except StoreError as error:
            for sent in accepted:
                self._router.refuse(connection, sent.command, error)
            return
        self._answer(accepted, placed, connection)
        self._counters.count_put(messages)
        self._on_appended()

    def _answer(self, accepted: list[Sent], placed: list[AppendResult], connection: Connection) -> None:
        confirmed = self._store.horizon.confirmed
        settings = self._settings()
        at = 0
        for sent in accepted:
            places = placed[at : at + len(sent.messages)]
            at += len(places)
            if sent.command.is_oneway:
                continue
            answer = self._success(sent, places, settings)
            last = places[-1]
            position = last.physical_offset + last.size
            if position > confirmed and sent.waits:
                self.answer_when_confirmed(position, connection, sent.command, answer)
            else:
                connection.send(answer)

    def _success(self, sent: Sent, places: list[AppendResult], settings: BrokerSettings) -> bytes:
        message_id = ",".join([f"{self._id_prefix}{place.physical_offset:016X}" for place in places])
        command, unique_key = sent.command, sent.unique_key
        if command.serialization is Serialization.JSON and (unique_key.isalnum() or not unique_key):
            ids = (message_id.encode(), unique_key.encode())
            offset, handle = places[0].queue_offset, sent.recall_handle
            return send_response(command.opaque, sent.queue_id, offset, ids, settings.region_id, settings.trace_on, handle)
        header = SendMessageResponseHeader(
            msg_id=message_id,
            queue_id=sent.queue_id,
            queue_offset=places[0].queue_offset,
            transaction_id=unique_key,
            recall_handle=sent.recall_handle,
            region_id=settings.region_id,
            trace_on=settings.trace_on,
        )
        return encode_command(command.response(ResponseCode.SUCCESS, header))

    # --- answers that wait for the disk

    def answer_when_confirmed(self, position: int, connection: Connection, command: Command, answer: bytes) -> None:
        """Send it once everything before `position` is confirmed; at once when too many wait for that."""
        self.answers_when_confirmed(position, connection, lambda: (command,), answer)

    def answers_when_confirmed(
        self, position: int, connection: Connection, requests: Callable[[], Iterable[Command]], answer: bytes
    ) -> None:
        """The same for many requests, whose answers lie one behind the other."""
        if position > self._store.horizon.confirmed and len(self._parked) < PARKED_ANSWERS_MAX:
            self._parked.append(_Parked(position, self._wall_ms(), connection, requests, answer))
        else:
            connection.send(answer)

    def confirmed(self) -> None:
        """The horizon moved: answer those whose messages it has passed."""
        confirmed = self._store.horizon.confirmed
        while self._parked and self._parked[0].position <= confirmed:
            parked = self._parked.popleft()
            parked.connection.send(parked.answer)

    def check_time(self, now_ms: int) -> None:
        """Those who waited too long are told that their message is stored, and not known to be on disk."""
        while self._parked and now_ms - self._parked[0].since_ms > SYNC_FLUSH_TIMEOUT_MS:
            parked = self._parked.popleft()
            remark = "The message is stored; the flush to disk takes too long."
            for command in parked.requests():
                parked.connection.send_command(command.response(ResponseCode.FLUSH_DISK_TIMEOUT, remark=remark))
