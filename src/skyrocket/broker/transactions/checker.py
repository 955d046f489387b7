"""Walks along the half messages when it is time, and does what the round (`transactions.py`) decides.

A round goes on in turns, each a few messages long, so that nobody waits for it. Before the first turn, and before a producer is
asked, everything appended so far is confirmed: a producer's answer must find the half message that it was asked about. How far
a round has come is told (as the offsets of group CID_RMQ_SYS_TRANS, where Apache's brokers look for it) when all that it relies
on is on disk: copies, op messages, and the messages that transactions committed. A crash before that repeats the round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from skyrocket.broker.send.internal_writer import OwnMessages
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import NOT_FOUND, ConsumerOffsets
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.check_round import CheckRound, Copies, PendingOps, Progress, Rules, Verdict
from skyrocket.broker.transactions.records import (
    QUEUE,
    Half,
    copy_for_question,
    copy_of_immune,
    given_up,
    op_message,
    op_offsets,
    question,
)
from skyrocket.net.connection import Connection
from skyrocket.protocol.command import Command
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore
from skyrocket.store.read.reading import QueueMessages

log = logging.getLogger(__name__)

HALVES_PER_TURN = 64
HALF_BYTES_PER_TURN = 1024 * 1024
OPS_PER_TURN = 32
OP_BYTES_PER_TURN = 256 * 1024
CONFIRM_MS = 10  # how often a round looks whether what it waits for is confirmed
PUBLISH_MS = 500  # and whether what it has done is on disk


class _Question(NamedTuple):
    """For a producer of a group, as soon as what it is about is confirmed."""

    group: str
    command: Command


class _Unpublished(NamedTuple):
    """How far the checks have come, once the log is on disk up to there."""

    progress: Progress
    needs_flushed: int


class TransactionChecks:
    def __init__(
        self,
        store: MessageStore,
        own_messages: OwnMessages,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        clients: ClientTable[Connection],
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        now_ms: int,
    ) -> None:
        self._store = store
        self._own_messages = own_messages
        self._offsets = offsets
        self._topics = topics
        self._clients = clients
        self._settings = settings
        self._store_host = store_host
        self.ops = PendingOps()
        self.copies = Copies()
        self._round: CheckRound | None = None
        self._confirmed_at = 0  # the round goes on when everything before this is confirmed
        self._questions: list[_Question] = []
        self._given_up = 0  # in this round
        self._unpublished: _Unpublished | None = None
        self._bring_back()
        self._next_round_ms = now_ms + settings().transaction_check_interval_ms
        self._turn = 0  # gives questions to the producers of a group

    # --- the clockwork's side

    def check(self, now_ms: int) -> int:
        """Do what is due; when to be asked again."""
        settings = self._settings()
        self.publish()
        self._next_round_ms = min(self._next_round_ms, now_ms + settings.transaction_check_interval_ms)  # clocks are set back
        due_ms = self.ops.due_ms(now_ms, settings.transaction_op_interval_ms)
        if due_ms is not None and due_ms <= now_ms:
            self.write_ops(now_ms)
        if self._round is None and self._next_round_ms <= now_ms:
            self._begin(settings, now_ms)
        if self._round is not None:
            if self._store.horizon.confirmed < self._confirmed_at:
                return now_ms + CONFIRM_MS
            self._ask()
            self._go_on(self._round, settings, now_ms)
            if not self._round.is_over or self._questions:
                return now_ms
            self._finish(self._round, settings, now_ms)
        times_ms = [self._next_round_ms]
        if (due_ms := self.ops.due_ms(now_ms, settings.transaction_op_interval_ms)) is not None:
            times_ms.append(due_ms)
        if self._unpublished is not None:
            times_ms.append(now_ms + PUBLISH_MS)
        return min(times_ms)

    def ended(self, offsets: list[int]) -> None:
        """Transactions have ended, perhaps while a round is under way."""
        self.copies.ended(offsets)
        if self._round is not None:
            self._round.ended(offsets)

    def write_ops(self, now_ms: int) -> None:
        """Say in the op queue what has ended."""
        if self.ops:
            self._own_messages.put([op_message(self.ops.waiting(), self._store_host, now_ms)])
            self.ops.written()

    def publish(self) -> None:
        """Say how far the checks have come, if that is safe by now."""
        if self._unpublished is not None and self._store.horizon.flushed >= self._unpublished.needs_flushed:
            progress, self._unpublished = self._unpublished.progress, None
            self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, QUEUE, progress.half)
            self._offsets.commit(TRANSACTION_GROUP, OP_TOPIC, QUEUE, progress.op)

    def close(self, now_ms: int) -> None:
        """Nothing ends any more. What the disk does not take now is found out again after the next start."""
        try:
            self.write_ops(now_ms)
        except StoreError as error:
            log.warning(
                "The ends of %d transactions were not noted; their producers will be asked again: %s", len(self.ops), error
            )

    # --- a round

    def _begin(self, settings: BrokerSettings, now_ms: int) -> None:
        self.write_ops(now_ms)
        at = self._progress()
        half_end = self._bounds(HALF_TOPIC).max_offset
        rules = Rules.of(settings.transaction_timeout_ms, settings.transaction_checks_max, settings.reserved_hours)
        self._round = CheckRound(rules, now_ms, at, half_end)
        self._given_up = 0
        self._confirmed_at = self._store.horizon.appended

    def _bring_back(self) -> None:
        """Offsets may be ahead of queues that lost their ends in a crash: what comes there next must not be taken for done."""
        told = self._told()
        progress = Progress(min(told.half, self._bounds(HALF_TOPIC).max_offset), min(told.op, self._bounds(OP_TOPIC).max_offset))
        if progress != told:
            self._unpublished = _Unpublished(progress, self._store.horizon.appended)

    def _progress(self) -> Progress:
        return self._told() if self._unpublished is None else self._unpublished.progress

    def _told(self) -> Progress:
        return Progress(self._offset_in(HALF_TOPIC), self._offset_in(OP_TOPIC))

    def _offset_in(self, topic: str) -> int:
        """Where the checks go on in a queue."""
        offset = self._offsets.query(TRANSACTION_GROUP, topic, QUEUE)
        least = self._bounds(topic).min_offset
        return least if offset == NOT_FOUND else max(least, offset)

    def _bounds(self, topic: str) -> QueueMessages:
        return self._store.reading.messages(topic, QUEUE, 0, 0)

    def _go_on(self, walk: CheckRound, settings: BrokerSettings, now_ms: int) -> None:
        offset, count = walk.pending(HALVES_PER_TURN)
        if not count:
            walk.is_over = True
            return
        read = self._store.reading.messages(HALF_TOPIC, QUEUE, offset, count, HALF_BYTES_PER_TURN)
        next_half = max(offset + 1, min(read.next_offset, offset + count))
        decided: list[tuple[Half, Verdict]] = []
        for view in read.records:
            half = Half.of(decode_record(view, check_crc=False))
            at = half.record.queue_offset
            if at >= next_half:
                break
            verdict = walk.judge(half, now_ms)
            if verdict is Verdict.WAIT:
                walk.is_over, next_half = True, at
            elif self._has_more_ops(walk):
                next_half = at
            else:
                decided.append((half, verdict))
                continue
            break
        self._carry_out(decided, settings)
        walk.passed(next_half)

    def _has_more_ops(self, walk: CheckRound) -> bool:
        """Whether there were op messages that had not been read."""
        read = self._store.reading.messages(OP_TOPIC, QUEUE, walk.next_op, OPS_PER_TURN, OP_BYTES_PER_TURN)
        if read.next_offset <= walk.next_op:
            return False
        for view in read.records:
            record = decode_record(view, check_crc=False)
            walk.learn(record.queue_offset, op_offsets(record))
        walk.passed_ops(read.next_offset)
        return True

    def _carry_out(self, decided: list[tuple[Half, Verdict]], settings: BrokerSettings) -> None:
        """Store again what has to be, all of it with one append."""
        stored: list[tuple[Half, Half | None, Record]] = []  # the half message, its copy if that is what is stored, the record
        for half, verdict in decided:
            copy = _copy(half, verdict)
            if copy is not None and len(copy.record.properties) <= PROPERTIES_BYTES_MAX:
                stored.append((half, copy, copy.record))
            elif verdict is not Verdict.ENDED:
                stored.append((half, None, given_up(half)))
        if not stored:
            return
        gone = sum(copy is None for _, copy, _ in stored)
        if gone and CHECK_MAX_TIME_TOPIC not in self._topics:
            self._topics.create_for_group(CHECK_MAX_TIME_TOPIC, 1)
        placed = self._own_messages.put([record for _, _, record in stored])
        self._given_up += gone
        self._confirmed_at = self._store.horizon.appended
        for (half, copy, _), place in zip(stored, placed, strict=True):
            if copy is not None:
                self.copies.copied(half.record.queue_offset, place.queue_offset)
            if copy is not None and copy.check_times != half.check_times:
                command = question(copy, place, settings.broker_name)
                self._questions.append(_Question(copy.producer_group or "", command))

    def _finish(self, walk: CheckRound, settings: BrokerSettings, now_ms: int) -> None:
        progress = walk.progress
        if progress != self._progress():
            self._unpublished = _Unpublished(progress, self._store.horizon.appended)
        if self._given_up:
            log.warning(
                "%d half messages were asked about too often, or are too old: they are in %s now.",
                self._given_up,
                CHECK_MAX_TIME_TOPIC,
            )
        self._round = None
        self._next_round_ms = now_ms + settings.transaction_check_interval_ms

    # --- asking producers

    def _ask(self) -> None:
        questions, self._questions = self._questions, []
        for group, command in questions:
            connection = self._producer(group)
            if connection is not None:
                connection.oneway(command)

    def _producer(self, group: str) -> Connection | None:
        """One of the group that is there and reads what it is sent; they take turns. Without one the question is lost, as it is
        in Apache's brokers: the half message is asked about again in the next round."""
        members = self._clients.producers(group) or []
        self._turn += 1
        for at in range(len(members)):
            connection = members[(self._turn + at) % len(members)].connection
            if connection.is_open and not connection.is_full:
                return connection
        return None


def _copy(half: Half, verdict: Verdict) -> Half | None:
    if verdict is Verdict.ASK:
        return copy_for_question(half)
    return copy_of_immune(half) if verdict is Verdict.LATER else None
