"""Index the messages of the timer topic when they arrive, and deliver them when they are due.

    rmq_sys_wheel_timer ──index──▶ timer index (log and wheel) ──slot by slot──▶ TimerSlot ──▶ REAL_TOPIC, queue REAL_QID
          ▲                                                                        │
          └───────────── rolled: stored again, because it is due beyond the window ◀─┘

`check` does a bounded amount of both and returns when to call it again. Only the current slot is in memory.

A slot is delivered only once all messages that were stored or rolled before it began are indexed, so that every recall is
known. A message that arrives too late for its own slot goes into the current one.

When the clock was set back, the current slot lies in the future, and messages that are due before it come too late for their own
slots. They go into the current one with their own due times, and it is delivered from at once, each message at its time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Final, NoReturn

from skyrocket.broker.delay.timer_message import Timing, delivery_request, roll_request, time_properties
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.delay.timer_slot import NOTHING_MS, TimerSlot, position_of
from skyrocket.broker.delay.timers import BLANK_SLOTS, rolled_to_ms, rolls_from_ms
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.property_shapes import PropertyShapes
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.message.record import store_timestamp_of
from skyrocket.protocol.message.waiting_record import parse_waiting_records
from skyrocket.protocol.system_names import TIMER_TOPIC
from skyrocket.store.cold_reads import RepeatedReads, WaitsForDiskError
from skyrocket.store.errors import StoreError, UnreadableError
from skyrocket.store.log.readdress import ReaddressRequest
from skyrocket.store.message_store import MessageStore
from skyrocket.store.timers.timer_checkpoint import TimerCheckpoint
from skyrocket.store.timers.timer_index import TimerCheckpointJob, TimerIndex, TimerTopic
from skyrocket.store.timers.timer_log import DELETES, ROLLS, WAITS, UnitFields
from skyrocket.supervised_task import failure_of

log = logging.getLogger(__name__)
outside = OutsideLog(log)

MESSAGES_PER_TURN: Final = 512
BYTES_PER_TURN: Final = 4 * 1024 * 1024
UNITS_PER_TURN: Final = 16_384  # units of a slot's chain that one turn reads from the timer log
SLOTS_PER_TURN: Final = 16_384  # past slots that one turn walks through
PACE_MS: Final = 20
"""How long to wait after a turn with work, so that the next one takes more messages: many cost little more than one."""

RATE_MS: Final = 10_000  # rates are over about this time
CHECKPOINT_LATEST_MS: Final = 60_000  # between checkpoints when only time passes

INDEXED: Final = "timer indexed"  # kinds of counters
DELIVERED: Final = "timer delivered"


class TimerFilesNotOpenError(WaitsForDiskError):
    """The timer files must be opened, created or removed, and the event loop does not wait for that."""

    def __init__(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        super().__init__("The timer files are not open yet.")
        self._work = work
        self._then = then
        self._failure: Exception | None = None
        self._is_done = False

    def fetch(self) -> None:
        self._failure = failure_of(self._work)
        self._is_done = True

    def finish(self) -> None:
        """Raise what the work has raised; otherwise do what follows it."""
        if self._failure is not None:
            raise self._failure
        assert self._is_done, "a check was called before the thread had ended"
        self._then()


class TimerDelivery:
    def __init__(
        self,
        store: MessageStore,
        internal_writer: InternalWriter,
        index: TimerIndex,
        metrics: TimerMetrics,
        settings: Callable[[], BrokerSettings],
        counters: Counters,
    ) -> None:
        self._store = store
        self._reads = RepeatedReads(store.reads)
        self._internal_writer = internal_writer
        self._index = index
        self._metrics = metrics
        self._settings = settings
        self._counters = counters
        self._shapes = PropertyShapes(partial(Timing.of, precision_ms=index.precision_ms))
        self._is_open = False
        self._work: TimerFilesNotOpenError | None = None  # what a thread does with the timer files before the next check
        self._slot: TimerSlot | None = None  # the current slot
        self._rest_until_ms = 0
        self._known_ms = 0  # messages stored until then are indexed
        self._needed_offset = 0  # messages before this offset must be indexed before the next delivery
        self._read_again = False  # the timer files are not reliable: rebuild them
        self._steps = 0  # steps of delivery since the start; when it grows, there is progress to save
        self._job: TimerCheckpointJob | None = None  # waits until the commit log is flushed
        self._saved: tuple[int, ...] = ()

    def count_slot(self, time_ms: int) -> int:
        """Count the messages that wait in the slot of a time."""
        return self._index.slot(time_ms).units if self._is_open else 0

    def prepare(self, now_ms: int) -> None:
        """Open the timer files before the broker serves clients: recovery takes a while when many timers wait."""
        try:
            self._open(now_ms, waits=True)
        except StoreError as error:
            log.error("The timer files cannot be opened; the broker tries again every second: %s", error)

    def start_over(self, now_ms: int) -> None:
        """Open the timer files again, when the broker becomes master: they may be another master's by now."""
        self._leave_files()
        self.prepare(now_ms)

    def follow(self, master: TimerCheckpoint, now_ms: int) -> TimerCheckpointJob:
        """Take the progress of the master, which a slave copies. Return the job that saves it, for any thread."""
        self._leave_files()
        return self._index.follow(master, now_ms)

    def _leave_files(self) -> None:
        if self._is_open or self._work is not None:
            self._index.close()
        self._job = self._slot = self._work = None
        self._saved = ()
        self._read_again = self._is_open = False

    # --- a turn

    def check(self, now_ms: int, ahead_ms: int = 0) -> int | None:
        """Index new messages and deliver due ones. Return when to call again, or None when there are no timers.

        `now_ms` is the machine's clock; `ahead_ms` says how far the clock that stamps messages is ahead of it.
        """
        if self._work is not None:
            work, self._work = self._work, None
            work.finish()
        if self._read_again:
            self._rebuild(now_ms)
        if not self._is_open and not self._open(now_ms, waits=False):
            return None
        if now_ms < self._rest_until_ms <= now_ms + PACE_MS:
            return self._rest_until_ms
        work_before = (self._index.queue_offset, self._steps)
        has_more = self._index_new(now_ms, ahead_ms)
        next_ms = self._deliver_due(now_ms)
        if has_more or next_ms <= now_ms:
            return now_ms
        if work_before != (self._index.queue_offset, self._steps):
            self._rest_until_ms = now_ms + PACE_MS
        return max(next_ms, self._rest_until_ms)

    def _open(self, now_ms: int, *, waits: bool) -> bool:
        """Open or create the timer files. Return False when there are no timers. Unless it `waits`, a thread does it."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        if queue is None or not queue.max_offset:
            return False  # no files are needed until the first timed message
        topic = TimerTopic(queue.min_offset, queue.max_offset, self._queue_offset_of)

        def open_files() -> None:
            for sentence in self._index.open(now_ms, topic):
                log.warning(sentence)

        def finish() -> None:
            self._is_open = True
            self._needed_offset = topic.max_offset
            if self._index.queue_offset == topic.min_offset:  # all messages are counted again
                self._metrics.clear()

        if not waits and self._index.opens_alone():
            self._do_in_thread(open_files, finish)
        open_files()
        finish()
        return True

    def _do_in_thread(self, work: Callable[[], None], then: Callable[[], None]) -> NoReturn:
        """Leave work on the files to a thread: creating the wheel takes long. The next check goes on with `then`."""
        self._is_open = False
        self._work = TimerFilesNotOpenError(work, then)
        raise self._work

    def _queue_offset_of(self, physical_offset: int) -> int | None:
        record = self._store.reading.record_at(physical_offset)
        return record.queue_offset if record is not None and record.topic == TIMER_TOPIC else None

    def _rebuild(self, now_ms: int) -> NoReturn:
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        self._slot = None

        def finish() -> None:
            self._is_open = True
            self._needed_offset = self._index.known_until
            self._metrics.clear()
            self._read_again = False

        self._do_in_thread(partial(self._index.read_again, now_ms, 0 if queue is None else queue.min_offset), finish)

    # --- messages arrive

    def _index_new(self, now_ms: int, ahead_ms: int) -> bool:
        """Index the next messages of the topic. Return whether there are more."""
        index = self._index
        messages = self._store.reading.messages
        read = self._reads.read("new", partial(messages, TIMER_TOPIC, 0, index.queue_offset, MESSAGES_PER_TURN, BYTES_PER_TURN))
        has_more = read.next_offset < read.max_offset
        if read.records:
            self._index_records(read.records, now_ms)
            self._counters.add(INDEXED, "", len(read.records), 0)
        index.queue_offset = max(read.next_offset, index.queue_offset)
        self._known_ms = store_timestamp_of(read.records[-1]) - ahead_ms if has_more and read.records else now_ms
        return has_more

    def _index_records(self, records: list[memoryview], now_ms: int) -> None:
        index = self._index
        read_ms, precision_ms = index.read_ms, index.precision_ms
        present_ms = 0 if self._slot is None else self._slot.end_ms  # messages due until then go into the current slot too
        window_slots = roll_window_slots(self._settings())
        window_ms = rolls_from_ms(now_ms, window_slots, precision_ms)
        was_read_once = index.queue_offset < index.known_until
        known = self._shapes.known
        entries: list[tuple[int, int, int, int, int]] = []
        present: list[tuple[int, Timing, int]] = []  # index in `entries`, and due time, of messages for the current slot
        topics: dict[str, int] = {}
        for waiting in parse_waiting_records(records, TIMER_TOPIC):
            timing = None if waiting is None else known.get(waiting[1]) or self._shapes.of(waiting[1], waiting[2])[0]
            if waiting is None or timing is None:
                outside.error("A message in %s cannot be delivered: its topic or time is missing.", TIMER_TOPIC)
                continue  # it must not block the others
            record, _, _, queue_offset, physical_offset, _, stored_ms = waiting
            out_ms, topic = timing.out_ms, timing.topic
            if was_read_once and queue_offset < index.known_until and out_ms < index.known_settled_ms:
                continue  # it was delivered before
            due_ms = timing.due_ms(stored_ms)
            magic = WAITS if timing.deletes is None else WAITS | DELETES
            time_ms = due_ms - 1
            if out_ms < read_ms:  # too late for its own slot
                time_ms = read_ms
                index.settled_ms = min(index.settled_ms, out_ms)
            elif out_ms >= window_ms:
                rolled_ms = rolled_to_ms(out_ms, now_ms, window_slots, precision_ms)
                assert rolled_ms is not None
                time_ms, magic = rolled_ms, magic | ROLLS
            if time_ms < present_ms:
                present.append((len(entries), timing, due_ms))
            entries.append((time_ms, magic, physical_offset, len(record), timing.topic_hash))
            if timing.deletes is None:
                topics[topic] = topics.get(topic, 0) + 1
        positions = index.add(entries, now_ms)
        for number_of, timing, due_ms in present:
            self._add_to_slot(timing, due_ms, entries[number_of][1], positions[number_of])
        self._metrics.add(topics)

    def _add_to_slot(self, timing: Timing, due_ms: int, magic: int, position: int) -> None:
        assert self._slot is not None
        if timing.deletes is not None and not magic & ROLLS:
            self._slot.recalled.add(timing.deletes)
        else:
            self._slot.add(due_ms, position)

    # --- messages are due

    def _deliver_due(self, now_ms: int) -> int:
        """Deliver due messages. Return when there is more to do."""
        index = self._index
        for _ in range(SLOTS_PER_TURN):
            start_ms = index.read_ms
            if start_ms == now_ms:
                return start_ms + 1
            if min(start_ms, now_ms - 1) >= self._known_ms or index.queue_offset < self._needed_offset:
                return now_ms
            slot = self._slot
            if slot is None:
                found = index.slot(start_ms)
                slot = self._slot = TimerSlot(start_ms, index.precision_ms, found.last, found.units)
            if not slot.is_read and not self._read_units(slot):
                return now_ms
            if self._deliver(slot, now_ms) or self._read_again:
                return now_ms
            if not slot.is_over(now_ms):
                return slot.next_due_ms() or slot.end_ms
            index.move_on()
            self._slot = None
            self._steps += slot.has_delivered  # worth saving: Apache's broker records progress by whole slots only
        return now_ms

    def _read_units(self, slot: TimerSlot) -> bool:
        """Read units of the slot's chain from the timer log. Return whether the chain is read to its end."""
        timer_log, precision_ms = self._index.log, self._index.precision_ms
        delivered_before, delivered_until_ms = self._index.delivered_before, self._index.delivered_until_ms
        chain = timer_log.chain(slot.next_unit, UNITS_PER_TURN)
        for position, (_, before, magic, indexed_ms, delay_ms, physical_offset, _, _, _) in chain:
            time_ms = indexed_ms + delay_ms
            if not slot.start_ms <= time_ms < slot.end_ms:
                return self._report_damage(f"at {position}")
            if magic & ROLLS:
                due_ms: int | None = slot.start_ms + 1
            elif magic & DELETES or time_ms % precision_ms == 0:  # Apache writes only the slot
                due_ms = self._read_due_ms(physical_offset, slot)
            else:
                due_ms = time_ms + 1
            if due_ms is not None and (position >= delivered_before or due_ms > delivered_until_ms):
                slot.add(due_ms, position)
            slot.next_unit = before
            slot.units_left -= -1 if magic & DELETES else 1
            if slot.is_read:
                return slot.units_left == 0 or self._report_damage(f"before {position}")
        if slot.next_unit < timer_log.start:  # the unit was deleted by retention
            slot.next_unit = -1
            return True
        return False if len(chain) == UNITS_PER_TURN else self._report_damage(f"at {slot.next_unit}")

    def _read_due_ms(self, physical_offset: int, slot: TimerSlot) -> int | None:
        """Return the due time by the message itself, or None when it is damaged or recalls another message."""
        [waiting] = parse_waiting_records([self._store.reading.view_at(physical_offset)], TIMER_TOPIC)
        timing = None if waiting is None else self._shapes.of(waiting[1], waiting[2])[0]
        if waiting is None or timing is None:
            return None
        if timing.deletes is not None:
            slot.recalled.add(timing.deletes)
            return None
        return timing.due_ms(waiting[6])

    def _report_damage(self, where: str) -> bool:
        """Log the damage and plan a rebuild. Return False, so that callers stop reading these files."""
        log.error("The timer log is damaged %s; timers are rebuilt from their topic.", where)
        self._read_again = True
        return False

    def _deliver(self, slot: TimerSlot, now_ms: int) -> bool:
        """Deliver due messages of the slot, as many as one turn may. Return whether more are due."""
        taken = slot.take(now_ms, MESSAGES_PER_TURN)
        if not taken:
            return False
        try:
            units = self._limit_bytes(self._index.log.units_at(list(map(position_of, taken))))
            topics: dict[str, int] = {}
            requests = self._readdress_requests([unit for unit in units if unit is not None], slot, now_ms, topics)
            self._internal_writer.readdress(requests)
        except StoreError as error:
            slot.put_back(taken)
            self._read_again |= isinstance(error, UnreadableError)  # of the timer log
            raise
        slot.put_back(taken[len(units) :])
        if any(address.topic == TIMER_TOPIC for _, address, _, _ in requests):  # rolled messages: a recall may be among them
            self._needed_offset = self._store.queues.next_offset((TIMER_TOPIC, 0))
        self._steps += len(units)
        self._metrics.add(topics)
        self._counters.add(DELIVERED, "", len(requests), 0)
        return slot.is_due(now_ms)

    def _limit_bytes(self, units: list[UnitFields | None]) -> list[UnitFields | None]:
        """Return the first units, up to BYTES_PER_TURN and at least one."""
        sizes = accumulate([0 if unit is None else max(0, unit[6]) for unit in units], initial=0)
        return [unit for unit, before_bytes in zip(units, sizes, strict=False) if before_bytes < BYTES_PER_TURN]

    def _readdress_requests(
        self, units: list[UnitFields], slot: TimerSlot, now_ms: int, topics: dict[str, int]
    ) -> list[ReaddressRequest]:
        """Build the requests that move the messages of these units, without recalled and missing ones.

        Add to `topics` how the number of waiting messages changes.
        """
        known, recalled = self._shapes.known, slot.recalled
        views_at = self._store.reading.views_at
        records = self._reads.read("due", partial(views_at, [unit[5] for unit in units]))
        more_of: dict[int, bytes] = {}  # by the time when a message was indexed
        requests: list[ReaddressRequest] = []
        for (_, _, magic, indexed_ms, _, physical_offset, size, _, _), record, waiting in zip(
            units, records, parse_waiting_records(records, TIMER_TOPIC), strict=True
        ):
            if record is None:
                outside.error(
                    "The timed message at log offset %d is missing or damaged and cannot be delivered.", physical_offset
                )
                self._read_again |= physical_offset >= self._store.log.start  # perhaps the timer log is damaged
                continue
            timing, key = None, None
            if waiting is not None and len(record) == size:
                _, shape, key, _, _, _, stored_ms = waiting
                timing = known.get(shape)
                if timing is None:
                    timing, key = self._shapes.of(shape, key)
            if timing is None or (timing.out_ms > slot.start_ms and not magic & ROLLS):
                self._report_damage(f"where it names {physical_offset}")
                continue
            topic, deletes = timing.topic, timing.deletes is not None
            if not deletes:
                topics[topic] = topics.get(topic, 0) - 1
            more = more_of.get(indexed_ms) or more_of.setdefault(indexed_ms, time_properties(indexed_ms, now_ms))
            if magic & ROLLS:
                requests.append(roll_request(record, timing.due_ms(stored_ms), more))
                continue
            if deletes or (recalled and _is_recalled(timing, key, recalled)):
                continue
            request = delivery_request(record, timing, key, more)
            if request is not None:
                requests.append(request)
        return requests

    # --- progress

    def figures(self, now_ms: int) -> dict[str, str]:
        """Return figures for the broker's runtime information."""
        queue = self._store.queues.get(TIMER_TOPIC, 0)
        is_open = self._is_open and queue is not None
        behind = 0 if not is_open or queue is None else queue.max_offset - self._index.queue_offset
        return {
            "timerReadBehind": str(max(0, now_ms - self._index.read_ms) // 1000 if is_open else 0),
            "timerOffsetBehind": str(behind),
            "timerCongestNum": str(self._index.waiting),
            "timerEnqueueTps": f"{self._counters.per_second(INDEXED, '', RATE_MS):.1f}",
            "timerDequeueTps": f"{self._counters.per_second(DELIVERED, '', RATE_MS):.1f}",
        }

    def plan_checkpoint(self, now_ms: int) -> int | None:
        """Plan a checkpoint when there is progress to save. Return how far the commit log must be on disk first."""
        if not self._is_open or self._read_again:
            return None
        index = self._index
        state = (index.queue_offset, self._steps, index.read_ms // CHECKPOINT_LATEST_MS)
        if self._job is None and state != self._saved:
            self._saved = state
            self._job = self._checkpoint(now_ms, is_clean=False)
        return None if self._job is None else self._job.log_position

    def begin_checkpoint(self) -> TimerCheckpointJob | None:
        """Return the planned checkpoint as a job for any thread, or None when the log is not on disk that far yet."""
        job, horizon = self._job, self._store.horizon
        if job is None or self._read_again or job.log_position > min(horizon.flushed, horizon.confirmed):
            return None
        self._job = None
        return job

    def _checkpoint(self, now_ms: int, *, is_clean: bool) -> TimerCheckpointJob:
        index = self._index
        self._store.expired_files.add(index.log.expire(self._store.log.start))
        until_ms = NOTHING_MS if self._slot is None else self._slot.delivered_until_ms()
        return index.begin_checkpoint(now_ms, until_ms, self._store.horizon.appended, is_clean=is_clean)

    def fail_checkpoint(self, job: TimerCheckpointJob, error: OSError) -> None:
        """A checkpoint failed. After a failed sync it is unknown what the files contain, so rebuild them.

        If only the checkpoint itself could not be written, on a full disk, the files are sound and the next one follows. To
        rebuild them would deliver once more what was delivered from the current slot.
        """
        if job.is_synced:
            log.warning("The progress of timers was not saved (%s): the next save does it.", error)
            self._saved = ()
            return
        log.error("The progress of timers could not be saved (%s): they are rebuilt from their topic.", error)
        self._read_again = True

    def close(self, now_ms: int) -> None:
        """Close after the last flush, with a clean checkpoint where possible."""
        horizon = self._store.horizon
        if self._is_open and not self._read_again and horizon.appended == min(horizon.flushed, horizon.confirmed):
            try:
                self._checkpoint(now_ms, is_clean=True).run()
            except OSError as error:
                log.error("The progress of timers could not be saved (%s): the next start recovers as after a crash.", error)
        self._index.close()
        self._is_open = False


def roll_window_slots(settings: BrokerSettings) -> int:
    """Return how many slots ahead a message may be in the wheel."""
    most = settings.timer_wheel_slots - BLANK_SLOTS
    return settings.timer_roll_window_slots if 2 <= settings.timer_roll_window_slots <= most else most


def _is_recalled(timing: Timing, key: bytes | None, recalled: set[str]) -> bool:
    unique_key = timing.unique_key if key is None else key.decode()
    return not recalled.isdisjoint((unique_key, f"{timing.topic}+{unique_key}"))
