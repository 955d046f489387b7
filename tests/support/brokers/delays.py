"""Delay levels over a store on a simulated disk, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.delay.levels import DelayLevels
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.protocol.message.properties import UNIQUE_KEY, decode_properties, encode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.store.config import DELAY_LEVELS, StoreConfig, delay_levels_ms
from skyrocket.store.config_files import DELAY_OFFSETS, ConfigFiles
from skyrocket.store.message import AppendResult
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.running_broker import send_header
from tests.support.stores.simulated_disk import SimulatedDisk

BEGIN_MS = 1_700_000_000_000
ROOT = "store"


class Delivered(NamedTuple):
    key: str
    at_ms: int
    record: Record


class Delays:
    def __init__(self, *, levels: str = DELAY_LEVELS, sync_flush: bool = False, segment_bytes: int = 64 * 1024) -> None:
        self.disk = SimulatedDisk()
        self.now_ms = BEGIN_MS
        self.config = StoreConfig(
            segment_bytes=segment_bytes,
            queue_entries_per_file=50,
            index_slots=10,
            index_entries=100_000,
            index_enabled=False,
            sync_flush=sync_flush,
            delay_levels=levels,
        )
        self.wakes = 0
        self.open()

    # --- lives

    def open(self) -> None:
        self.store = MessageStore(ROOT, self.config, files=self.disk)
        self.store.open()
        self.files = ConfigFiles(self.disk, self.store.paths.config)
        self.progress = DelayLevelProgress(self._safe_position, self.clock)
        loaded = self.files.load(DELAY_OFFSETS).body
        if loaded is not None:
            self.progress.load(loaded)
        own = InternalWriter(self.store, self.clock, self._notify_grown, Counters(self.clock))
        self.internal_writer = own
        self.schedule = DelayLevels(self.store, own, self.progress, delay_levels_ms(self.config.delay_levels), self._wake)

    def kill(self) -> None:
        """The process goes, and another comes."""
        self.disk = self.disk.kill()
        self.open()

    def crash(self, rng: Random) -> None:
        """The power goes."""
        self.disk = self.disk.crash(rng)
        self.open()

    def close(self) -> None:
        self.flush()
        self.save()
        self.store.close()

    def flush(self) -> None:
        self.store.flush()
        self._notify_grown()

    def save(self) -> None:
        self.files.save(DELAY_OFFSETS, self.progress.snapshot())

    # --- time

    def clock(self) -> int:
        return self.now_ms

    def pass_ms(self, span_ms: int) -> int | None:
        self.now_ms += span_ms
        return self.check()

    def check(self) -> int | None:
        """One turn, as the scheduler gives them."""
        said = self.schedule.check(self.now_ms)
        self._notify_grown()
        return said

    def settle(self) -> int | None:
        """Turns until nothing is due any more; when something will be."""
        said = self.check()
        while said is not None and said <= self.now_ms:
            said = self.check()
        return said

    # --- messages

    def send(self, level: int | str, key: str, topic: str = "orders", queue_id: int = 0, **given: object) -> AppendResult:
        """As the intake does it."""
        properties = {"DELAY": str(level), UNIQUE_KEY: key}
        record = Record(topic=topic, body=key.encode(), queue_id=queue_id, born_timestamp=self.now_ms, **given)  # type: ignore[arg-type]
        stored = self.schedule.redirect(send_header(topic), record, properties) or record
        (placed,) = self.internal_writer.write([replace(stored, properties=encode_properties(properties))])
        return placed

    def send_all(self, level: int, keys: Iterable[str]) -> None:
        for key in keys:
            self.send(level, key)

    def delivered(self, topic: str = "orders", queue_id: int = 0) -> list[Delivered]:
        found: list[Delivered] = []
        offset = 0
        while True:
            messages = self.store.reading.messages(topic, queue_id, offset, 1000)
            if not messages.records:
                return found
            for view in messages.records:
                record = decode_record(view)
                found.append(Delivered(decode_properties(record.properties)[UNIQUE_KEY], record.store_timestamp, record))
            offset = messages.next_offset

    def keys(self, topic: str = "orders", queue_id: int = 0) -> list[str]:
        return [message.key for message in self.delivered(topic, queue_id)]

    # --- what the broker does around it

    def _safe_position(self) -> int:
        return min(self.store.horizon.flushed, self.store.horizon.confirmed)

    def _notify_grown(self) -> None:
        for topic, queue_id in self.store.take_grown():
            if topic == "SCHEDULE_TOPIC_XXXX":
                self.schedule.on_queue_grown(queue_id)

    def _wake(self) -> None:
        self.wakes += 1
