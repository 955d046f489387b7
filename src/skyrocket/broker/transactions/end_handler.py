"""37: a producer says how transactions ended. All that a read event brought goes into the store with one append: plain ends
(`plain_ends`) together with its sends, all others behind them.
323: an administrator wants a message asked about again that was given up.

    find the half message → is it the one that is meant? → committed: the message goes to its own queue
                                                         → both: the half message has ended, which an op message will say

A committed message is in the log before any op message that says so. Whatever a crash leaves of the two, a half message without
its op message is asked about again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from skyrocket.broker.send.internal_writer import OwnMessages
from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.transactions.check_round import end_is_too_late
from skyrocket.broker.transactions.checker import TransactionChecks
from skyrocket.broker.transactions.end_fast_path import Ended, Halves
from skyrocket.broker.transactions.records import Half, HalfFacts, op_move, resumed
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.end_transaction import TransactionEnd, end_of
from skyrocket.protocol.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.waiting_record import WaitingRecord, waiting_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from skyrocket.store.errors import StoreError
from skyrocket.store.log.readdress import ReaddressRequest
from skyrocket.store.message_store import MessageStore

log = logging.getLogger(__name__)


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
        self._shapes = PropertyShapes(HalfFacts.of)

    def register(self, router: Router) -> None:
        self._router = router
        router.add_group((RequestCode.END_TRANSACTION,), self.handle)
        router.add(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume)

    def handle(self, commands: list[Command], connection: Connection) -> None:
        """All ends of a read event."""
        read: list[Command] = []
        ends: list[TransactionEnd] = []
        for command in commands:
            try:
                ends.append(end_of(command.header(EndTransactionRequestHeader)))
            except ProtocolError as error:
                self._refuse(command, connection, error)
            else:
                read.append(command)
        self._end(ends, read, connection)

    def take(self, ends: list[TransactionEnd], connection: Connection) -> None:
        """The same for oneway ones, which nobody answers."""
        self._end(ends, [None] * len(ends), connection)

    def _end(self, ends: list[TransactionEnd], commands: Sequence[Command | None], connection: Connection) -> None:
        now_ms = self._wall_ms()
        halves = waiting_records(self._store.reading.views_at([place for place, _, _, _, _ in ends]), HALF_TOPIC)
        ended, accepted = self._looked_at(list(zip(ends, halves, commands, strict=True)), connection, now_ms)
        try:
            if ended:
                self._store_ends(ended, now_ms)
        except StoreError as error:
            for command in accepted:
                self._refuse(command, connection, error)
        else:
            for command in filter(None, accepted):
                _succeed(command, connection)

    def _looked_at(
        self, given: list[tuple[TransactionEnd, WaitingRecord | None, Command | None]], connection: Connection, now_ms: int
    ) -> tuple[list[Ended], list[Command | None]]:
        """Those that count, and their commands; what is to be said about the others is said."""
        ended: list[Ended] = []
        accepted: list[Command | None] = []
        for end, half, command in given:
            try:
                found = self._ended(end, half, now_ms)
            except RefusedError as error:
                self._refuse(command, connection, error)
                continue
            if found is None:
                _succeed(command, connection)
            else:
                ended.append(found)
                accepted.append(command)
        return ended, accepted

    def _refuse(self, command: Command | None, connection: Connection, error: Exception) -> None:
        if command is None or command.is_oneway:  # the only one to tell is the log
            log.warning("The end of a transaction was not accepted from %s: %s", connection.peer_text, error)
        else:
            self._router.refuse(connection, command, error)

    # --- one end

    def _ended(self, end: TransactionEnd, half: WaitingRecord | None, now_ms: int) -> Ended | None:
        """With the half message that is there. None when the producer does not know how it ended: it will be asked."""
        place, said_offset, outcome, said_group, is_answer = end
        if outcome == TRANSACTION_NONE:
            return None
        if outcome not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            raise _wrong(f"A transaction ends with {TRANSACTION_COMMIT} or {TRANSACTION_ROLLBACK}, not {outcome}.")
        if half is None:
            raise _wrong(f"There is no half message at {place} in the log.")
        record, shape, key, offset, _, born_ms, _ = half
        facts = self._shapes.known.get(shape)
        if facts is None:
            facts, key = self._shapes.of(shape, key)
        group, immunity, address = facts
        if group != said_group:
            raise _wrong(f"The half message at {place} is not of producer group '{said_group[:160]}'.")
        if offset != said_offset:
            raise _wrong(f"The half message at {place} has queue offset {offset}, not {said_offset}.")
        if address is None:
            raise _wrong(f"The half message at {place} does not say where it goes.")
        if immunity and end_is_too_late(immunity, now_ms - born_ms, is_answer, self._settings().transaction_timeout_ms):
            remark = "The time without questions that the message asked for is over: its producer will be asked how it ended."
            raise RefusedError(ResponseCode.ILLEGAL_OPERATION, remark)
        delivers = outcome == TRANSACTION_COMMIT and not self._checks.copies.is_over(offset)
        return (offset, (record, address, key, b"") if delivers else None)

    def resume(self, command: Command, _connection: Connection) -> Command:
        """By the id that says where the message lies, in either topic."""
        offset = decode_offset_id(command.header(ResumeCheckHalfMessageRequestHeader).msg_id or "").physical_offset
        record = self._store.reading.record_at(offset)
        if record is None or record.topic not in (HALF_TOPIC, CHECK_MAX_TIME_TOPIC):
            raise _wrong(f"There is no half message at {offset} in the log, and none that was given up.")
        self._own_messages.put([resumed(Half.of(record))])
        return command.response(ResponseCode.SUCCESS)

    # --- all of them

    def _store_ends(self, ended: list[Ended], now_ms: int) -> None:
        moves = [move for _, move in ended if move is not None]
        offsets = self._checks.copies.offsets_of([offset for offset, _ in ended])
        op_message = self.op_message(offsets, now_ms)
        if op_message is not None:
            moves.append(op_message)
        if moves:
            self._own_messages.move(moves)
        self.ended(offsets, op_message is not None, now_ms)

    def op_message(self, offsets: list[int], now_ms: int) -> ReaddressRequest | None:
        """The one that these half messages fill, which have ended; None when there is room in it yet."""
        noted = self._checks.ops.filled_by(offsets, self._settings().transaction_op_bytes_max)
        return None if noted is None else op_move(noted, self._store_host, now_ms)

    def ended(self, offsets: list[int], are_noted: bool, now_ms: int) -> None:
        """These have, and what they committed is stored; with it, if they `are_noted`, the op message that they filled."""
        ops = self._checks.ops
        self._checks.ended(offsets)
        if are_noted:
            ops.written()
            return
        if not ops:
            self._wake()
        ops.add(offsets, now_ms)

    def halves(self) -> Halves:
        """For who takes plain ends."""
        return Halves(self._store.reading.recent_records(), self._shapes.known, self._checks.copies)


def _succeed(command: Command | None, connection: Connection) -> None:
    if command is not None and not command.is_oneway:
        connection.send_command(command.response(ResponseCode.SUCCESS))


def _wrong(sentence: str) -> RefusedError:
    """Apache answers with this code too, whatever is wrong."""
    return RefusedError(ResponseCode.SYSTEM_ERROR, sentence)
