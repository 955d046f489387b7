"""Timers on a store in memory, with a clock that the test sets and a disk that can lose unsynced writes."""

from __future__ import annotations

from random import Random

from skyrocket.broker.delay.timer_delivery import TimerDelivery
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.delay.timers import Timers
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.message.properties import (
    TIMER_DELETE_UNIQUE_KEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQUE_KEY,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.cold_reads import WaitsForDiskError
from skyrocket.store.config import StoreConfig
from skyrocket.store.message_store import MessageStore
from skyrocket.store.timers.timer_index import TimerIndex, TimerSizes
from tests.support.brokers.running_broker import send_header
from tests.support.stores.simulated_disk import SimulatedDisk

BEGIN_MS = 1_700_000_000_000
TOPIC = "orders"
SLOTS = 256
ROLL_WINDOW_SLOTS = 64
STORE = StoreConfig(segment_bytes=256 * 1024, queue_entries_per_file=100, index_enabled=False)


class TimerWorld:
    def __init__(self, disk: SimulatedDisk | None = None, **settings: object) -> None:
        self.now_ms = BEGIN_MS
        self.disk = disk or SimulatedDisk()
        values = {"timer_wheel_slots": SLOTS, "timer_roll_window_slots": ROLL_WINDOW_SLOTS, **settings}
        self.settings = BrokerSettings(**values)  # type: ignore[arg-type]
        self.log_file_bytes = 4_096
        self.start()

    def clock(self) -> int:
        return self.now_ms

    # --- lives

    def start(self) -> None:
        self.store = MessageStore("/store", STORE, files=self.disk)
        self.store.open()
        sizes = TimerSizes(self.settings.timer_wheel_slots, self.settings.timer_precision_ms, self.log_file_bytes)
        self.index = TimerIndex(self.disk, self.store.paths, sizes)
        self.counters = Counters(self.clock)
        self.internal_writer = InternalWriter(self.store, self.clock, lambda: None, self.counters)
        self.metrics = TimerMetrics(self.clock)
        self.delivery = TimerDelivery(
            self.store, self.internal_writer, self.index, self.metrics, lambda: self.settings, self.counters
        )
        self.timers = Timers(lambda: self.settings, self.clock, self.delivery.count_slot)

    def stop(self) -> None:
        self.store.flush()
        self.delivery.close(self.now_ms)
        self.store.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        self.disk = self.disk.kill()
        self.start()

    def cut_power(self, rng: Random) -> None:
        self.disk = self.disk.crash(rng)
        self.start()

    # --- messages

    def send(self, key: str, **properties: str) -> dict[str, str]:
        """Send a timed message. Return the properties that it waits with, or is delivered with at once."""
        stored = {UNIQUE_KEY: key, **properties}
        record = Record(TOPIC, key.encode(), queue_id=1, born_timestamp=self.now_ms)
        elsewhere = self.timers.redirect(send_header(TOPIC), record, stored) or record
        elsewhere.properties = encode_properties(stored)
        self.internal_writer.write([elsewhere])
        return stored

    def at(self, key: str, due_ms: int) -> dict[str, str]:
        return self.send(key, **{TIMER_DELIVER_MS: str(due_ms)})

    def recall(self, key: str, waiting: dict[str, str]) -> None:
        time_ms = int(waiting[TIMER_OUT_MS]) + 1
        self.send(key, **{TIMER_DELIVER_MS: str(time_ms), TIMER_DELETE_UNIQUE_KEY: key})

    def keep(self) -> bool:
        """Write a checkpoint, if that is possible now."""
        self.delivery.plan_checkpoint(self.now_ms)
        job = self.delivery.begin_checkpoint()
        if job is None:
            return False
        job.run()
        return True

    # --- time

    def check(self) -> int | None:
        """Run until nothing more is due at this time."""
        for _ in range(10_000):
            try:
                next_ms = self.delivery.check(self.now_ms)
            except WaitsForDiskError as work:  # the scheduler leaves it to a thread
                work.fetch()
                continue
            if next_ms is None or next_ms > self.now_ms:
                return next_ms
        raise AssertionError("deliveries do not end")

    def go_to(self, time_ms: int) -> None:
        """Move the clock to a time, and run deliveries whenever they are due on the way."""
        while True:
            next_ms = self.check()
            if next_ms is None or next_ms > time_ms:
                break
            self.now_ms = next_ms
        self.now_ms = time_ms

    def pass_ms(self, span_ms: int) -> None:
        self.go_to(self.now_ms + span_ms)

    # --- what came out

    def records(self, topic: str = TOPIC, queue_id: int = 1) -> list[Record]:
        found: list[Record] = []
        offset = 0
        while (page := self.store.reading.messages(topic, queue_id, offset, 256)).next_offset > offset:
            found += [decode_record(view) for view in page.records]
            offset = page.next_offset
        return found

    def delivered(self) -> list[tuple[str, int]]:
        """Return key and delivery time of each delivered message."""
        return [(decode_properties(record.properties)[UNIQUE_KEY], record.store_timestamp) for record in self.records()]

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.delivered()]
