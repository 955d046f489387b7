"""The general path of END_TRANSACTION (37), and RESUME_CHECK_HALF_MESSAGE (323).

37: a producer says how transactions ended. All ends of a read event go into the store with one append. `end_rules` decides what
each end means.
323: an administrator has the checks of a half message resumed that were given up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from skyrocket.broker.send.contributors import PendingAppend
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.broker.transactions.end_fast_path import EndContribution, RecentHalves
from skyrocket.broker.transactions.end_rules import EndedHalf, EndRules, refuse_end
from skyrocket.broker.transactions.records import HalfMessage, resume_check
from skyrocket.net.connection import Connection
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.end_transaction import TransactionEnd, transaction_end
from skyrocket.protocol.headers import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.waiting_record import WaitingRecord, parse_waiting_records
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore

outside = OutsideLog(logging.getLogger(__name__))


class EndTransactionHandler:
    def __init__(
        self,
        store: MessageStore,
        writer: InternalWriter,
        rules: EndRules,
        wall_ms: Callable[[], int],
        answers: ConfirmedAnswers,
    ) -> None:
        self._store = store
        self._writer = writer
        self._rules = rules
        self._wall_ms = wall_ms
        self._answers = answers

    def register(self, router: Router) -> None:
        self._router = router
        router.add_group((RequestCode.END_TRANSACTION,), self.handle)
        router.add(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume)

    def begin_contribution(self, append: PendingAppend) -> EndContribution:
        """Begin to collect the ends of a read event on the fast path."""
        halves = RecentHalves(self._store.reading.recent_records(), self._rules.shapes.known, self._rules.copies)
        return EndContribution(append, self._rules, halves, self._wall_ms(), self.handle_oneway)

    # --- 37

    def handle(self, commands: list[Command], connection: Connection) -> None:
        """Handle neighbouring ends of a read event."""
        decoded: list[Command] = []
        ends: list[TransactionEnd] = []
        for command in commands:
            try:
                ends.append(transaction_end(command.header(EndTransactionRequestHeader)))
            except ProtocolError as error:
                self._refuse(command, connection, error)
            else:
                decoded.append(command)
        self._end(ends, decoded, connection)

    def handle_oneway(self, ends: list[TransactionEnd], connection: Connection) -> None:
        """Handle ends that get no answer."""
        self._end(ends, [None] * len(ends), connection)

    def _end(self, ends: list[TransactionEnd], commands: Sequence[Command | None], connection: Connection) -> None:
        now_ms = self._wall_ms()
        halves = parse_waiting_records(self._store.reading.views_at([place for place, _, _, _, _ in ends]), HALF_TOPIC)
        ended, accepted = self._apply(list(zip(ends, halves, commands, strict=True)), connection, now_ms)
        try:
            if ended:
                self._store_ended(ended, now_ms)
        except StoreError as error:
            for command in accepted:
                self._refuse(command, connection, error)
        else:
            for command in accepted:
                self._succeed(command, connection)

    def _apply(
        self, given: list[tuple[TransactionEnd, WaitingRecord | None, Command | None]], connection: Connection, now_ms: int
    ) -> tuple[list[EndedHalf], list[Command | None]]:
        """Return the half messages that have ended, and their commands. Answer the other commands."""
        ended: list[EndedHalf] = []
        accepted: list[Command | None] = []
        for end, half, command in given:
            try:
                applied = self._rules.apply(end, half, now_ms)
            except RefusedError as error:
                self._refuse(command, connection, error)
                continue
            if applied is None:
                self._succeed(command, connection)
            else:
                ended.append(applied)
                accepted.append(command)
        return ended, accepted

    def _store_ended(self, ended: list[EndedHalf], now_ms: int) -> None:
        requests = [request for _, request in ended if request is not None]
        offsets = self._rules.copies.offsets_of([offset for offset, _ in ended])
        op_message = self._rules.op_message(offsets, now_ms)
        if op_message is not None:
            requests.append(op_message)
        if requests:
            self._writer.readdress(requests)
        self._rules.record_ended(offsets, op_message is not None, now_ms)

    def _succeed(self, command: Command | None, connection: Connection) -> None:
        """Answer SUCCESS once the log is confirmed: a repeated end may name a message whose first commit still waits."""
        if command is not None and not command.is_oneway:
            answer = encode_command(command.response(ResponseCode.SUCCESS))
            self._answers.send(self._store.horizon.appended, connection, answer)

    def _refuse(self, command: Command | None, connection: Connection, error: Exception) -> None:
        if command is None or command.is_oneway:  # no one reads an answer
            outside.warning("An end of a transaction from %s was not accepted: %s", connection.peer_text, error)
        else:
            self._router.refuse(connection, command, error)

    # --- 323

    def resume(self, command: Command, connection: Connection) -> None:
        """Store a half message again as if it was never checked. The request names it by its offset id.

        The half message lies in the half topic, or in the topic of those that were given up.
        """
        offset = decode_offset_id(command.header(ResumeCheckHalfMessageRequestHeader).msg_id or "").physical_offset
        record = self._store.reading.record_at(offset)
        if record is None or record.topic not in (HALF_TOPIC, CHECK_MAX_TIME_TOPIC):
            raise refuse_end(f"There is no half message at {offset} in the log, and none that was given up.")
        self._writer.write([resume_check(HalfMessage.of(record))])
        self._succeed(command, connection)
