"""The timer topic's messages, taken in when they arrive and delivered when they are due.

    rmq_sys_wheel_timer ──take in──▶ timer index (log and wheel) ──slot by slot──▶ DueSlot ──▶ REAL_TOPIC, queue REAL_QID
          ▲                                                                          │
          └───────────── rolled: stored anew, because it is due beyond the window ◀──┘

`check` does a bounded piece of both and says when it wants to be asked again. Only the slot of the present second is in memory.

A slot is delivered only when every message that was stored before it began has been taken in, and what was rolled before it: a
message that takes another one back is then known. What came too late for its own slot goes into the present one, by the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from skyrocket.broker.counters import Counters
from skyrocket.broker.due_slot import DueSlot, position_of
from skyrocket.broker.own_messages import OwnMessages
from skyrocket.broker.property_shapes import PropertyShapes, with_key
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.timer_metrics import TimerMetrics
from skyrocket.broker.timers import BLANK_SLOTS, TIMER_TOPIC, due_ms, number, rolled_to_ms
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.properties import (
    NAME_END,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQUE_KEY,
    VALUE_END,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.record import QUEUE_OFFSET_AT, SYS_FLAG_AT, properties_of, readdressed, store_timestamp_of
from skyrocket.protocol.tags import tags_code
from skyrocket.store.consume_queues import can_be_directory
from skyrocket.store.errors import StoreError
from skyrocket.store.message import Unplaced, index_keys
from skyrocket.store.message_store import MessageStore
from skyrocket.store.timer_index import Entry, TimerCheckpointJob, TimerIndex, Topic
from skyrocket.store.timer_log import DELETES, ROLLS, WAITS, Unit

log = logging.getLogger(__name__)

MESSAGES_PER_TURN: Final = 512
BYTES_PER_TURN: Final = 4 * 1024 * 1024
UNITS_PER_TURN: Final = 16_384  # of a slot's chain, read from the timer log
SLOTS_PER_TURN: Final = 16_384  # that are over
PACE_MS: Final = 20
"""After some work, how long more of it is gathered: many messages at once cost little more than one."""

CHECKPOINT_LATEST_MS: Final = 60_000  # when nothing but time goes on

TAKEN_IN: Final = "timer taken in"  # kinds of counters
DELIVERED: Final = "timer delivered"

# Begins with an end, because a producer may have left its own out.
_MORE = f"{VALUE_END}{TIMER_ENQUEUE_MS}{NAME_END}%d{VALUE_END}{TIMER_DEQUEUE_MS}{NAME_END}%d{VALUE_END}".encode()


class _Said(NamedTuple):
    """What the properties of a message of the timer topic say, the unique key perhaps marked."""

    out_ms: int | None
    topic: str | None
    queue_id: int | None  # None where a message cannot be
    properties: dict[str, str]
    tags_code: int
    keys: tuple[str, ...]

    @classmethod
    def of(cls, properties: dict[str, str]) -> _Said:
        topic = properties.get(REAL_TOPIC)
        queue_id = None if topic is None else _queue_id(topic, properties.get(REAL_QUEUE_ID))
        out_ms, code = number(properties.get(TIMER_OUT_MS)), tags_code(properties.get(TAGS))
        return cls(out_ms, topic, queue_id, properties, code, index_keys(properties))


class _Timed(NamedTuple):
    """A message of the timer topic, as far as its time goes."""

    out_ms: int
    topic: str
    properties: dict[str, str]  # the unique key perhaps marked
    stored_ms: int
    precision_ms: int
    said: _Said
    key: bytes | None  # whose place is marked

    @property
    def due_ms(self) -> int:
        return due_ms(self.properties, self.out_ms, self.stored_ms, self.precision_ms)


class TimerDelivery:
    def __init__(
        self,
        store: MessageStore,
        own_messages: OwnMessages,
        index: TimerIndex,
        metrics: TimerMetrics,
        settings: Callable[[], BrokerSettings],
        counters: Counters,
    ) -> None:
        self._store = store
        self._own_messages = own_messages
        self._index = index
        self._metrics = metrics
        self._settings = settings
        self._counters = counters
        self._shapes = PropertyShapes(_Said.of)
        self._is_open = False
        self._slot: DueSlot | None = None  # the one that is read
        self._rest_until_ms = 0
        self._known_ms = 0  # messages that were stored until then were taken in
        self._needed_offset = 0  # messages of the topic before it must be, before any more is delivered
        self._read_again = False  # the files are not to be relied on
        self._steps = 0  # of delivering: when there are more of them there is progress to keep
        self._job: TimerCheckpointJob | None = None  # waits for the commit log's flush
        self._kept: tuple[int, ...] = ()

    def crowd(self, time_ms: int) -> int:
        """How many messages wait in the slot of this time."""
        return self._index.slot(time_ms).units if self._is_open else 0

    def prepare(self, now_ms: int) -> None:
        """What waits is found again, which takes a while when it is much: better before clients are heard than between them."""
        try:
            self._open(now_ms)
        except StoreError as error:
            log.error("The timers cannot be found yet, and this is tried again each second: %s", error)

    # --- a turn

    def check(self, now_ms: int) -> int | None:
        """Take in and deliver what can be. When to be asked again; None when there are no timers at all."""
        if not self._is_open and not self._open(now_ms):
            return None
        if now_ms < self._rest_until_ms <= now_ms + PACE_MS:
            return self._rest_until_ms
        if self._read_again:
            self._start_again(now_ms)
        work_before = (self._index.queue_offset, self._steps)
        has_more = self._take_in(now_ms)
        next_ms = self._deliver_due(now_ms)
        if has_more or next_ms <= now_ms:
            return now_ms
        if work_before != (self._index.queue_offset, self._steps):
            self._rest_until_ms = now_ms + PACE_MS
        return max(next_ms, self._rest_until_ms)

    def _open(self, now_ms: int) -> bool:
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None or not queue.max_offset:
            return False  # as long as nobody uses timers, they need no files
        for sentence in self._index.open(now_ms, Topic(queue.min_offset, queue.max_offset, self._queue_offset_of)):
            log.warning(sentence)
        self._is_open = True
        self._needed_offset = queue.max_offset
        return True

    def _queue_offset_of(self, physical_offset: int) -> int | None:
        record = self._store.reading.record_at(physical_offset)
        return record.queue_offset if record is not None and record.topic == TIMER_TOPIC else None

    def _start_again(self, now_ms: int) -> None:
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        self._slot = None
        self._index.read_again(now_ms, 0 if queue is None else queue.min_offset)
        self._needed_offset = self._index.known_until
        self._metrics.clear()
        self._read_again = False

    # --- in

    def _take_in(self, now_ms: int) -> bool:
        """The next messages of the topic. Whether there are more."""
        index = self._index
        read = self._store.reading.messages(TIMER_TOPIC, 0, index.queue_offset, MESSAGES_PER_TURN, BYTES_PER_TURN)
        has_more = read.next_offset < read.max_offset
        if read.records:
            self._add(read.records, now_ms)
            self._counters.added(TAKEN_IN, "", len(read.records), 0)
        index.queue_offset = max(read.next_offset, index.queue_offset)
        self._known_ms = store_timestamp_of(read.records[-1]) if has_more and read.records else now_ms
        return has_more

    def _add(self, records: list[memoryview], now_ms: int) -> None:
        index = self._index
        settings = self._settings()
        read_ms, precision_ms = index.read_ms, index.precision_ms
        window_slots = roll_window_slots(settings)
        entries: list[Entry] = []
        present: list[tuple[int, _Timed]] = []  # which of them go into the slot that is read
        topics: dict[str, int] = {}
        for record in records:
            timed = self._timed(record)
            if timed is None or self._was_delivered(record, timed):
                continue
            deletes = TIMER_DELETE_UNIQUE_KEY in timed.properties
            magic = WAITS | DELETES if deletes else WAITS
            if timed.out_ms < read_ms:  # too late for its own slot
                time_ms = read_ms
                index.settled_ms = min(index.settled_ms, timed.out_ms)
            else:
                time_ms = timed.due_ms - 1
                rolled_ms = rolled_to_ms(timed.out_ms, now_ms, window_slots, precision_ms)
                if rolled_ms is not None:
                    time_ms, magic = rolled_ms, magic | ROLLS
            if time_ms < read_ms + precision_ms and self._slot is not None:
                present.append((len(entries), timed))
            physical_offset = int.from_bytes(record[QUEUE_OFFSET_AT + 8 : QUEUE_OFFSET_AT + 16])
            entries.append(Entry(time_ms, magic, physical_offset, len(record), tags_code(timed.topic)))
            if not deletes:
                topics[timed.topic] = topics.get(timed.topic, 0) + 1
        positions = index.add(entries, now_ms)
        for number_of, timed in present:
            self._add_to_slot(timed, entries[number_of].magic, positions[number_of])
        self._metrics.add(topics)

    def _add_to_slot(self, timed: _Timed, magic: int, position: int) -> None:
        assert self._slot is not None
        if magic & DELETES and not magic & ROLLS:
            self._slot.taken_back.add(timed.properties[TIMER_DELETE_UNIQUE_KEY])
        else:
            self._slot.add(timed.due_ms, position)

    def _was_delivered(self, record: memoryview, timed: _Timed) -> bool:
        """When the topic is read again: whether this message was done with before."""
        index = self._index
        if index.queue_offset >= index.known_until or timed.out_ms >= index.known_settled_ms:
            return False
        return int.from_bytes(record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8]) < index.known_until

    def _timed(self, record: memoryview) -> _Timed | None:
        """None for what is no timed message: nothing of ours, and it must not hold up the others."""
        said, key = self._shapes.of(bytes(properties_of(record)))
        out_ms, topic, _, properties, _, _ = said
        if out_ms is None or topic is None or out_ms < 0:
            log.error("A message in %s does not say where it goes, and when; it goes nowhere.", TIMER_TOPIC)
            return None
        precision_ms = self._index.precision_ms
        return _Timed(out_ms - out_ms % precision_ms, topic, properties, store_timestamp_of(record), precision_ms, said, key)

    # --- out

    def _deliver_due(self, now_ms: int) -> int:
        """When there is more to do."""
        index = self._index
        for _ in range(SLOTS_PER_TURN):
            start_ms = index.read_ms
            if start_ms >= now_ms:
                return start_ms + 1
            if start_ms >= self._known_ms or index.queue_offset < self._needed_offset:
                return now_ms
            slot = self._slot
            if slot is None:
                found = index.slot(start_ms)
                slot = self._slot = DueSlot(start_ms, index.precision_ms, found.last, found.units)
            if not slot.is_read and not self._read_units(slot):
                return now_ms
            if self._deliver(slot, now_ms) or self._read_again:
                return now_ms
            if not slot.is_over(now_ms):
                return slot.next_due_ms() or slot.end_ms
            index.move_on()
            self._slot = None
            self._steps += slot.gave_out  # worth keeping: Apache's broker knows progress by whole slots alone
        return now_ms

    def _read_units(self, slot: DueSlot) -> bool:
        """Of the slot's chain through the log. Whether that was all."""
        index = self._index
        for _ in range(UNITS_PER_TURN):
            position = slot.next_unit
            if position < index.log.start:  # what it names has expired, or there never was anything
                slot.next_unit = -1
                return True
            unit = index.log.unit(position)
            if unit is None or not slot.start_ms <= unit.time_ms < slot.end_ms:
                return self._is_damaged(f"at {position}")
            self._read_unit(slot, position, unit)
            slot.next_unit = unit.before
            slot.units_left -= -1 if unit.magic & DELETES else 1
            if slot.is_read:
                return slot.units_left == 0 or self._is_damaged(f"before {position}")
        return False

    def _is_damaged(self, where: str) -> bool:
        """Always False: nothing more comes from these files."""
        log.error("The timer log is damaged %s; timers are found again from their topic.", where)
        self._read_again = True
        return False

    def _read_unit(self, slot: DueSlot, position: int, unit: Unit) -> None:
        if unit.magic & ROLLS:
            due = slot.start_ms + 1
        elif unit.magic & DELETES or unit.time_ms % self._index.precision_ms == 0:  # Apache writes no more than the slot
            record = self._store.reading.bytes_at(unit.physical_offset)
            timed = self._timed(record) if record is not None else None
            if timed is None:
                return
            if TIMER_DELETE_UNIQUE_KEY in timed.properties:
                slot.taken_back.add(timed.properties[TIMER_DELETE_UNIQUE_KEY])
                return
            due = max(timed.due_ms, slot.start_ms + 1)
        else:
            due = unit.time_ms + 1
        if position >= self._index.delivered_before or due > self._index.delivered_until_ms:
            slot.add(due, position)

    def _deliver(self, slot: DueSlot, now_ms: int) -> bool:
        """What is due of the slot, as far as one turn goes. Whether there is more."""
        taken = slot.take(now_ms, MESSAGES_PER_TURN)
        if not taken:
            return False
        messages: list[Unplaced] = []
        topics: dict[str, int] = {}
        size_bytes = done = 0
        try:
            while done < len(taken) and size_bytes < BYTES_PER_TURN:
                unit = self._index.log.unit(position_of(taken[done]))
                message = self._message(unit, slot, now_ms, topics) if unit is not None else None
                if message is not None:
                    messages.append(message)
                    size_bytes += len(message.record)
                done += 1
            places = self._own_messages.put_encoded(messages)
        except StoreError:
            slot.give_back(taken)
            raise
        slot.give_back(taken[done:])
        for message, place in zip(messages, places, strict=True):
            if message.topic == TIMER_TOPIC:  # rolled: what takes another one back must not come behind it
                self._needed_offset = place.queue_offset + 1
        self._steps += done
        self._metrics.add(topics)
        self._counters.added(DELIVERED, "", len(messages), 0)
        return slot.is_due(now_ms)

    def _message(self, unit: Unit, slot: DueSlot, now_ms: int, topics: dict[str, int]) -> Unplaced | None:
        """The message as it is stored where it belongs. None when it was taken back, or is not there any more."""
        record = self._store.reading.bytes_named(unit.physical_offset, unit.size)
        if record is None:
            log.error("The timed message at %d of the log is gone, or damaged, and is not delivered.", unit.physical_offset)
            self._read_again |= unit.physical_offset >= self._store.log.start  # or is it the timer log that is damaged?
            return None
        timed = self._timed(record) if len(record) == unit.size else None
        if timed is None or (timed.out_ms > slot.start_ms and not unit.magic & ROLLS):
            self._is_damaged(f"where it names {unit.physical_offset}")
            return None
        properties, topic = timed.properties, timed.topic
        deletes = TIMER_DELETE_UNIQUE_KEY in properties
        if not deletes:
            topics[topic] = topics.get(topic, 0) - 1
        if unit.magic & ROLLS:
            return _rolled(record, timed, unit, now_ms)
        key = properties.get(UNIQUE_KEY) if timed.key is None else timed.key.decode()
        if deletes or (slot.taken_back and not slot.taken_back.isdisjoint((key, f"{topic}+{key}"))):
            return None
        return _delivered(record, timed, unit, now_ms)

    # --- what is kept

    def figures(self, now_ms: int) -> dict[str, str]:
        """For the broker's runtime information."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        is_open = self._is_open and queue is not None
        behind = 0 if not is_open or queue is None else queue.max_offset - self._index.queue_offset
        return {
            "timerReadBehind": str(max(0, now_ms - self._index.read_ms) // 1000 if is_open else 0),
            "timerOffsetBehind": str(behind),
            "timerCongestNum": str(self._index.waiting),
            "timerEnqueueTps": f"{self._per_second(TAKEN_IN, now_ms):.1f}",
            "timerDequeueTps": f"{self._per_second(DELIVERED, now_ms):.1f}",
        }

    def _per_second(self, kind: str, now_ms: int) -> float:
        counter = self._counters.keyed(kind, "")
        return 0.0 if counter is None else counter.rate(now_ms, 10_000).per_second

    def plan_checkpoint(self, now_ms: int) -> int | None:
        """If there is progress to keep: how far the commit log must be on disk before it is."""
        if not self._is_open or self._read_again:
            return None
        index = self._index
        state = (index.queue_offset, self._steps, index.read_ms // CHECKPOINT_LATEST_MS)
        if self._job is None and state != self._kept:
            self._kept = state
            self._job = self._checkpoint(now_ms, is_clean=False)
        return None if self._job is None else self._job.log_position

    def begin_checkpoint(self) -> TimerCheckpointJob | None:
        """A job for any thread that keeps the progress that was planned; None when the log is not on disk that far yet."""
        job, horizon = self._job, self._store.horizon
        if job is None or self._read_again or job.log_position > min(horizon.flushed, horizon.confirmed):
            return None
        self._job = None
        return job

    def _checkpoint(self, now_ms: int, *, is_clean: bool) -> TimerCheckpointJob:
        index = self._index
        index.log.expire(self._store.log.start)
        until_ms = index.read_ms if self._slot is None else self._slot.delivered_until_ms()
        return index.begin_checkpoint(now_ms, until_ms, self._store.horizon.appended, is_clean=is_clean)

    def failed_checkpoint(self) -> None:
        """What is on disk of the files is unknown now."""
        self._read_again = True

    def close(self, now_ms: int) -> None:
        """Everything was flushed: the files are left as they can be used."""
        horizon = self._store.horizon
        if self._is_open and not self._read_again and horizon.appended == min(horizon.flushed, horizon.confirmed):
            try:
                self._checkpoint(now_ms, is_clean=True).run()
            except OSError as error:
                log.error("The timers' progress could not be kept (%s): the next start finds them as after a crash.", error)
        self._index.close()
        self._is_open = False


def roll_window_slots(settings: BrokerSettings) -> int:
    """How far ahead a message may lie in the wheel."""
    most = settings.timer_wheel_slots - BLANK_SLOTS
    return settings.timer_roll_window_slots if 2 <= settings.timer_roll_window_slots <= most else most


def _delivered(record: memoryview, timed: _Timed, unit: Unit, now_ms: int) -> Unplaced | None:
    topic, queue_id = timed.topic, timed.said.queue_id
    if queue_id is None:
        log.error("A timed message does not say where it goes, and goes nowhere: its topic is %r.", topic[:256])
        return None
    if TIMER_ENQUEUE_MS in timed.properties:  # it was rolled
        properties = decode_properties(bytes(properties_of(record)))
        times = {TIMER_ENQUEUE_MS: str(unit.taken_in_ms), TIMER_DEQUEUE_MS: str(now_ms)}
        encoded = readdressed(record, topic, queue_id, properties=encode_properties(properties | times))
    else:
        more = _MORE % (unit.taken_in_ms, now_ms)
        has_room = len(properties_of(record)) + len(more) <= PROPERTIES_BYTES_MAX
        encoded = readdressed(record, topic, queue_id, more=more if has_room else b"")
    return _unplaced(topic, queue_id, encoded, timed, record)


def _queue_id(topic: str, text: str | None) -> int | None:
    """None where a message cannot be."""
    queue_id = number(text)
    return None if queue_id is None or topic == TIMER_TOPIC or not can_be_directory((topic, queue_id)) else queue_id


def _rolled(record: memoryview, timed: _Timed, unit: Unit, now_ms: int) -> Unplaced:
    properties = decode_properties(bytes(properties_of(record)))
    times = number(properties.get(TIMER_ROLL_TIMES)) or 0
    properties |= {
        TIMER_ENQUEUE_MS: str(unit.taken_in_ms),
        TIMER_DEQUEUE_MS: str(now_ms),
        TIMER_ROLL_TIMES: str(times + 1),
        TIMER_DELIVER_MS: str(timed.due_ms),  # a delay means nothing any more: it is stored at another time now
    }
    encoded = readdressed(record, TIMER_TOPIC, 0, properties=encode_properties(properties))
    return _unplaced(TIMER_TOPIC, 0, encoded, timed, record)


def _unplaced(topic: str, queue_id: int, encoded: bytes, timed: _Timed, record: memoryview) -> Unplaced:
    sys_flag = int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4])
    return Unplaced(topic, queue_id, encoded, timed.said.tags_code, with_key(timed.said.keys, timed.key), sys_flag)
