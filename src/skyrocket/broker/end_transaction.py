"""37: a producer says how transactions ended. All that a read event brought goes into the store with one append.
323: an administrator wants a message asked about again that was given up.

    find the half message → is it the one that is meant? → committed: the message goes to its own queue
                                                         → both: the half message has ended, which an op message will say

A committed message is in the log before any op message that says so. Whatever a crash leaves of the two, a half message without
its op message is asked about again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from skyrocket.broker.half_messages import (
    GIVEN_UP_TOPIC,
    HALF_TOPIC,
    EndingHalf,
    Half,
    HalfFacts,
    committed,
    op_message,
    resumed,
)
from skyrocket.broker.own_messages import OwnMessages
from skyrocket.broker.property_shapes import PropertyShapes
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transaction_checks import TransactionChecks
from skyrocket.broker.transactions import end_is_too_late
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError, RecordError
from skyrocket.protocol.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from skyrocket.protocol.message_id import decode_offset_id
from skyrocket.protocol.record import topic_and_properties_of
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from skyrocket.store.errors import StoreError
from skyrocket.store.message import Unplaced, unplaced
from skyrocket.store.message_store import MessageStore

log = logging.getLogger(__name__)

_HALF_TOPIC = HALF_TOPIC.encode()


class _Ended(NamedTuple):
    half_offset: int
    message: Unplaced | None  # what is to be delivered


class EndTransactionHandler:
    def __init__(
        self,
        store: MessageStore,
        own_messages: OwnMessages,
        checks: TransactionChecks,
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        wall_ms: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when there is an end to note in the op queue, and was none."""
        self._store = store
        self._own_messages = own_messages
        self._checks = checks
        self._settings = settings
        self._store_host = store_host
        self._wall_ms = wall_ms
        self._wake = wake
        self._router: Router | None = None
        self._shapes = PropertyShapes(HalfFacts.of)

    def register(self, router: Router) -> None:
        self._router = router
        router.add_group((RequestCode.END_TRANSACTION,), self.handle)
        router.add(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume)

    def handle(self, commands: list[Command], connection: Connection) -> None:
        """All ends of a read event."""
        now_ms = self._wall_ms()
        accepted: list[Command] = []
        ended: list[_Ended] = []
        for command in commands:
            try:
                end = self._ended(command.header(EndTransactionRequestHeader), now_ms)
            except (RefusedError, ProtocolError) as error:
                self._refuse(command, connection, error)
            else:
                if end is not None:
                    accepted.append(command)
                    ended.append(end)
                elif not command.is_oneway:
                    connection.send_command(command.response(ResponseCode.SUCCESS))
        if not ended:
            return
        try:
            self._store_ends(ended, now_ms)
        except StoreError as error:
            for command in accepted:
                self._refuse(command, connection, error)
            return
        for command in accepted:
            if not command.is_oneway:
                connection.send_command(command.response(ResponseCode.SUCCESS))

    def take(self, headers: list[EndTransactionRequestHeader], connection: Connection) -> None:
        """The same for oneway ones, which nobody answers."""
        now_ms = self._wall_ms()
        ended: list[_Ended] = []
        for header in headers:
            try:
                end = self._ended(header, now_ms)
            except (RefusedError, ProtocolError) as error:
                _complain(connection, error)
            else:
                if end is not None:
                    ended.append(end)
        try:
            if ended:
                self._store_ends(ended, now_ms)
        except StoreError as error:
            for _ in ended:
                _complain(connection, error)

    def _refuse(self, command: Command, connection: Connection, error: Exception) -> None:
        assert self._router is not None
        if command.is_oneway:
            _complain(connection, error)
        else:
            connection.send_command(self._router.error_response(command, error))

    # --- one end

    def _ended(self, header: EndTransactionRequestHeader, now_ms: int) -> _Ended | None:
        """None when the producer does not know how it ended: it will be asked."""
        outcome = header.commit_or_rollback
        if outcome == TRANSACTION_NONE:
            return None
        if outcome not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            raise _wrong(f"A transaction ends with {TRANSACTION_COMMIT} or {TRANSACTION_ROLLBACK}, not {outcome}.")
        half = self._half(header)
        age_ms, timeout_ms = now_ms - half.born_timestamp, self._settings().transaction_timeout_ms
        if end_is_too_late(half.facts.immunity, age_ms, header.from_transaction_check, timeout_ms):
            remark = "The time without questions that the message asked for is over: its producer will be asked how it ended."
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)
        offset = half.queue_offset
        delivers = outcome == TRANSACTION_COMMIT and not self._checks.copies.is_over(offset)
        return _Ended(offset, committed(half) if delivers else None)

    def _half(self, header: EndTransactionRequestHeader) -> EndingHalf:
        """The half message that is meant, if it is the one that is there."""
        record = self._store.reading.bytes_unseen(header.commit_log_offset)
        properties = None if record is None else _half_properties(record)
        if record is None or properties is None:
            raise _wrong(f"There is no half message at {header.commit_log_offset} in the log.")
        half = EndingHalf(record, *self._shapes.of(properties))
        if half.facts.producer_group != header.producer_group:
            raise _wrong(
                f"The half message at {header.commit_log_offset} is not of producer group '{header.producer_group[:160]}'."
            )
        if half.queue_offset != header.tran_state_table_offset:
            raise _wrong(
                f"The half message at {header.commit_log_offset} has queue offset {half.queue_offset}, "
                f"not {header.tran_state_table_offset}."
            )
        if not half.facts.is_addressed:
            raise _wrong(f"The half message at {header.commit_log_offset} does not say where it goes.")
        return half

    def resume(self, command: Command, _connection: Connection) -> Command:
        """By the id that says where the message lies, in either topic."""
        offset = decode_offset_id(command.header(ResumeCheckHalfMessageRequestHeader).msg_id or "").physical_offset
        record = self._store.reading.record_at(offset)
        if record is None or record.topic not in (HALF_TOPIC, GIVEN_UP_TOPIC):
            raise _wrong(f"There is no half message at {offset} in the log, and none that was given up.")
        self._own_messages.put([resumed(Half.of(record))])
        return command.response(ResponseCode.SUCCESS)

    # --- all of them

    def _store_ends(self, ended: list[_Ended], now_ms: int) -> None:
        checks = self._checks
        messages = [end.message for end in ended if end.message is not None]
        offsets = [offset for end in ended for offset in checks.copies.offsets_of(end.half_offset)]
        noted = checks.ops.filled_by(offsets, self._settings().transaction_op_bytes_max)
        if noted is not None:
            messages.append(unplaced(op_message(noted, self._store_host, now_ms)))
        if messages:
            self._own_messages.put_encoded(messages)
        checks.ended(offsets)
        if noted is not None:
            checks.ops.written()
            return
        if not checks.ops:
            self._wake()
        checks.ops.add(offsets, now_ms)


def _half_properties(record: memoryview) -> bytes | None:
    """None for what is no half message: a producer may name any place in the log."""
    try:
        topic, properties = topic_and_properties_of(record)
    except RecordError:
        return None
    return bytes(properties) if topic == _HALF_TOPIC else None


def _complain(connection: Connection, error: Exception) -> None:
    """The only one to tell is the log."""
    log.warning("The end of a transaction was not accepted from %s: %s", connection.peer_text, error)


def _wrong(sentence: str) -> RefusedError:
    """Apache answers with this code too, whatever is wrong."""
    return RefusedError(ResponseCode.SYSTEM_ERROR, sentence)
