"""Checks half messages: asks producers about transactions that have not ended, in rounds (`check_round` decides).

A round works in turns of a few messages, so that it delays no other work of the event loop. Before the first turn, and before it
asks a producer, it waits until everything appended so far is confirmed: the producer's answer must find the half message. The
round's progress is published as the offsets of group CID_RMQ_SYS_TRANS, where Apache's brokers look for it. It is published when
all that it relies on is on disk: copies, op messages and committed messages. A crash before that repeats the round.

After a crash that damaged the log, an op message may have survived the committed message before it (`doubtful_ends`). Then the
round looks for the committed message, by its unique key, and asks the producer when it is not there.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.consumer_offsets import NOT_FOUND
from skyrocket.broker.transactions.check_round import CheckDecision, CheckProgress, CheckRound, CheckRules, HalfCopies, PendingOps
from skyrocket.broker.transactions.doubtful_ends import DoubtfulEnds
from skyrocket.broker.transactions.records import (
    QUEUE,
    HalfMessage,
    check_request,
    copy_for_check,
    copy_while_immune,
    give_up_check,
    op_message,
    op_offsets,
)
from skyrocket.net.connection import Connection
from skyrocket.protocol.command import Command
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import UNIQUE_KEY
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from skyrocket.store.cold_reads import RepeatedReads
from skyrocket.store.errors import StoreError
from skyrocket.store.read.reading import QueueMessages

log = logging.getLogger(__name__)

HALVES_PER_TURN = 64
HALF_BYTES_PER_TURN = 1024 * 1024
DOUBTFUL_HALVES_PER_TURN = 8  # while ends are in doubt: each may cost a query
QUERY_STEPS_MAX = 8  # for a committed message; one that is not found by then counts as lost
COMMITTED_MAX = 8  # messages with the same unique key that are looked at
OPS_PER_TURN = 32
OP_BYTES_PER_TURN = 256 * 1024
CONFIRM_POLL_MS = 10  # how often a round looks whether everything appended is confirmed
PUBLISH_POLL_MS = 500  # how often it looks whether its progress can be published


class _Check(NamedTuple):
    """A request for a producer of a group, to be sent when the copy of the half message is confirmed."""

    group: str
    request: Command


class _Unpublished(NamedTuple):
    """Progress to publish once the log is on disk up to `needs_flushed`."""

    progress: CheckProgress
    needs_flushed: int


class TransactionChecker:
    def __init__(self, context: BrokerContext) -> None:
        self._store = context.store
        self._reads = RepeatedReads(context.store.reads)
        self._writer = context.internal_writer
        self._offsets = context.offsets
        self._topics = context.topics
        self._clients = context.clients
        self._settings = context.settings
        self._store_host = context.store_host
        self.ops = PendingOps()
        self.copies = HalfCopies()
        self._needs_confirmed = 0  # the round goes on when everything before this position is confirmed
        self._next_producer = 0  # gives each producer of a group its turn
        self.start_over(context.wall_ms())

    def start_over(self, now_ms: int) -> None:
        """Begin with the published progress, when the broker starts or becomes master: another master may have checked since."""
        self.ops.clear()
        self.copies.clear()
        self._round: CheckRound | None = None
        self._checks_to_send: list[_Check] = []
        self._given_up = self._lost = 0  # in this round
        self._unpublished: _Unpublished | None = None
        self._limit_progress()
        self._doubts = self._find_doubts()
        self._next_round_ms = now_ms + self._settings().transaction_check_interval_ms

    # --- work that is due

    def check(self, now_ms: int) -> int:
        """Do what is due. Return when to call this again."""
        settings = self._settings()
        self.publish()
        self._next_round_ms = min(self._next_round_ms, now_ms + settings.transaction_check_interval_ms)  # clocks are set back
        due_ms = self.ops.due_ms(now_ms, settings.transaction_op_interval_ms)
        if due_ms is not None and due_ms <= now_ms:
            self.write_ops(now_ms)
        if self._round is None and self._next_round_ms <= now_ms:
            self._begin_round(settings, now_ms)
        if self._round is not None:
            if self._store.horizon.confirmed < self._needs_confirmed:
                return now_ms + CONFIRM_POLL_MS
            self._send_checks()
            self._take_turn(self._round, settings, now_ms)
            if not self._round.is_over or self._checks_to_send:
                return now_ms
            self._finish(self._round, settings, now_ms)
        times_ms = [self._next_round_ms]
        if (due_ms := self.ops.due_ms(now_ms, settings.transaction_op_interval_ms)) is not None:
            times_ms.append(due_ms)
        if self._unpublished is not None:
            times_ms.append(now_ms + PUBLISH_POLL_MS)
        return min(times_ms)

    def record_ended(self, offsets: list[int]) -> None:
        """Take note that these half messages have ended, also for a round that is under way."""
        self.copies.record_ended(offsets)
        if self._round is not None:
            self._round.record_ended(offsets)

    def write_ops(self, now_ms: int) -> None:
        """Write an op message that names what has ended."""
        if self.ops:
            self._writer.write([op_message(self.ops.waiting(), self._store_host, now_ms)])
            self.ops.clear()

    def publish(self) -> None:
        """Publish the progress of the checks, if everything that it relies on is on disk."""
        if self._unpublished is not None and self._store.horizon.flushed >= self._unpublished.needs_flushed:
            progress, self._unpublished = self._unpublished.progress, None
            self._offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, QUEUE, progress.half)
            self._offsets.commit(TRANSACTION_GROUP, OP_TOPIC, QUEUE, progress.op)

    def close(self, now_ms: int) -> None:
        """Write the last op message. If that fails, the producers are asked again after the next start."""
        try:
            self.write_ops(now_ms)
        except StoreError as error:
            log.warning(
                "No op message was written for the ends of %d transactions. Their producers will be asked again: %s",
                len(self.ops),
                error,
            )

    # --- a round

    def _begin_round(self, settings: BrokerSettings, now_ms: int) -> None:
        self.write_ops(now_ms)
        at = self._progress()
        half_end = self._bounds(HALF_TOPIC).max_offset
        rules = CheckRules.of(settings.transaction_timeout_ms, settings.transaction_checks_max, settings.reserved_hours)
        self._round = CheckRound(rules, now_ms, at, half_end)
        self._given_up = self._lost = 0
        self._needs_confirmed = self._store.horizon.appended

    def _limit_progress(self) -> None:
        """Limit the progress to the ends of the queues.

        A queue that lost messages in a crash may end before the progress, which would then count its next messages as done.
        """
        published = self._read_published_progress()
        half_end, op_end = self._bounds(HALF_TOPIC).max_offset, self._bounds(OP_TOPIC).max_offset
        progress = CheckProgress(min(published.half, half_end), min(published.op, op_end))
        if progress != published:
            self._unpublished = _Unpublished(progress, self._store.horizon.appended)

    def _find_doubts(self) -> DoubtfulEnds:
        """Return which ends are in doubt: those of half messages before damage of the log that the checks have not passed."""
        damage, first = self._store.log.set_aside_offsets, -1
        half_queue = self._store.queues.get(HALF_TOPIC, QUEUE) if damage else None
        if half_queue is not None:
            with suppress(StoreError):  # if the disk does not say where the first one lies, all damage counts
                entry = half_queue.entry(self._progress().half)
                first = first if entry is None else entry.physical_offset
        return DoubtfulEnds(damage, first, self._store.log.opened_at)

    def _progress(self) -> CheckProgress:
        return self._read_published_progress() if self._unpublished is None else self._unpublished.progress

    def _read_published_progress(self) -> CheckProgress:
        return CheckProgress(self._offset_in(HALF_TOPIC), self._offset_in(OP_TOPIC))

    def _offset_in(self, topic: str) -> int:
        """Return where the checks go on in a queue."""
        offset = self._offsets.query(TRANSACTION_GROUP, topic, QUEUE)
        least = self._bounds(topic).min_offset
        return least if offset == NOT_FOUND else max(least, offset)

    def _bounds(self, topic: str) -> QueueMessages:
        return self._store.reading.messages(topic, QUEUE, 0, 0)

    def _take_turn(self, walk: CheckRound, settings: BrokerSettings, now_ms: int) -> None:
        offset, count = walk.pending(DOUBTFUL_HALVES_PER_TURN if walk.has_doubts else HALVES_PER_TURN)
        if not count:
            walk.is_over = True
            return
        read = self._read(HALF_TOPIC, offset, count, HALF_BYTES_PER_TURN)
        next_half = max(offset + 1, min(read.next_offset, offset + count))
        decided: list[tuple[HalfMessage, CheckDecision]] = []
        for view in read.records:
            half = HalfMessage.of(decode_record(view, check_crc=False))
            at = half.record.queue_offset
            if at >= next_half:
                break
            decision = walk.decide(half, now_ms)
            if decision is CheckDecision.WAIT:
                walk.is_over, next_half = True, at
            elif self._read_ops(walk):
                next_half = at
            elif self._has_ended(walk, half):
                walk.record_ended([at])
                continue
            else:
                decided.append((half, decision))
                continue
            break
        self._carry_out(decided, settings)
        self._lost += sum(walk.doubtful_op(half.record.queue_offset) is not None for half, _ in decided)
        walk.skip_halves(next_half)

    def _read(self, topic: str, offset: int, count: int, bytes_max: int) -> QueueMessages:
        """Read messages of a queue. Raise NotInMemoryError when that would wait for the disk."""
        return self._reads.read(topic, partial(self._store.reading.messages, topic, QUEUE, offset, count, bytes_max))

    def _read_ops(self, walk: CheckRound) -> bool:
        """Read the next op messages. Return False when there are none."""
        read = self._read(OP_TOPIC, walk.next_op, OPS_PER_TURN, OP_BYTES_PER_TURN)
        if read.next_offset <= walk.next_op:
            return False
        for view in read.records:
            record = decode_record(view, check_crc=False)
            place = record.physical_offset
            walk.add_op(record.queue_offset, op_offsets(record), place if self._doubts.may_be_doubtful(place) else None)
        walk.skip_ops(read.next_offset)
        return True

    def _has_ended(self, walk: CheckRound, half: HalfMessage) -> bool:
        """Whether a half message has ended that op messages name which may be in doubt."""
        op_place = walk.doubtful_op(half.record.queue_offset)
        if op_place is None:
            return False
        return not self._doubts.is_doubtful(half.record.physical_offset, op_place) or self._is_committed(half)

    def _is_committed(self, half: HalfMessage) -> bool:
        """Whether the log has the committed message of a half message. Without an index or a unique key it is not found."""
        key = half.properties.get(UNIQUE_KEY)
        if not key:
            return False
        try:
            return self._reads.read((half.topic, key), partial(self._find_committed, half, key))
        except OSError:  # the disk does not return the index
            return False

    def _find_committed(self, half: HalfMessage, key: str) -> bool:
        stored_ms, place = half.record.store_timestamp, half.record.physical_offset
        query = self._store.reading.begin_query(half.topic, key, stored_ms, self._store.last_timestamp, COMMITTED_MAX)
        for _ in range(QUERY_STEPS_MAX):
            if query.step():
                break
        records = [decode_record(view, check_crc=False) for view in query.found]
        return any(
            record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT and record.prepared_transaction_offset == place
            for record in records
        )

    def _carry_out(self, decided: list[tuple[HalfMessage, CheckDecision]], settings: BrokerSettings) -> None:
        """Store copies and given-up messages with one append, and prepare the checks."""
        # The half message, its copy (None if it is given up), and the record to store.
        stored: list[tuple[HalfMessage, HalfMessage | None, Record]] = []
        for half, decision in decided:
            copy = _copy_for(half, decision)
            if copy is not None and len(copy.record.properties) <= PROPERTIES_BYTES_MAX:
                stored.append((half, copy, copy.record))
            elif decision is not CheckDecision.ENDED:
                stored.append((half, None, give_up_check(half)))
        if not stored:
            return
        given_up_now = sum(copy is None for _, copy, _ in stored)
        if given_up_now and CHECK_MAX_TIME_TOPIC not in self._topics:
            self._topics.create_for_group(CHECK_MAX_TIME_TOPIC, 1)
        placed = self._writer.write([record for _, _, record in stored])
        self._given_up += given_up_now
        self._needs_confirmed = self._store.horizon.appended
        for (half, copy, _), place in zip(stored, placed, strict=True):
            if copy is not None:
                self.copies.add(half.record.queue_offset, place.queue_offset)
            if copy is not None and copy.check_times != half.check_times:
                request = check_request(copy, place, settings.broker_name)
                self._checks_to_send.append(_Check(copy.producer_group or "", request))

    def _finish(self, walk: CheckRound, settings: BrokerSettings, now_ms: int) -> None:
        progress = walk.progress
        if progress != self._progress():
            self._unpublished = _Unpublished(progress, self._store.horizon.appended)
        if self._given_up:
            log.warning(
                "%d half messages were checked too often, or are too old. They were moved to topic %s.",
                self._given_up,
                CHECK_MAX_TIME_TOPIC,
            )
        if self._lost:
            log.warning(
                "A crash lost part of the log before the op messages of %d half messages, and their committed messages were not "
                "found. Their producers are asked again.",
                self._lost,
            )
        self._round = None
        self._next_round_ms = now_ms + settings.transaction_check_interval_ms

    # --- producers

    def _send_checks(self) -> None:
        checks, self._checks_to_send = self._checks_to_send, []
        for group, request in checks:
            connection = self._producer(group)
            if connection is not None:
                connection.oneway(request)

    def _producer(self, group: str) -> Connection | None:
        """Return a producer of the group that is connected and reads its socket; producers take turns.

        Without one the check is dropped, as by Apache's brokers. The next round checks the half message again.
        """
        members = self._clients.producers(group) or []
        self._next_producer += 1
        for at in range(len(members)):
            connection = members[(self._next_producer + at) % len(members)].connection
            if connection.is_open and not connection.is_full:
                return connection
        return None


def _copy_for(half: HalfMessage, decision: CheckDecision) -> HalfMessage | None:
    if decision is CheckDecision.CHECK:
        return copy_for_check(half)
    return copy_while_immune(half) if decision is CheckDecision.LATER else None
