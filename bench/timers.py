"""Timers without the network: CPU time to enqueue and deliver a message, and memory of a million waiting messages."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench import Figure
from skyrocket.broker.delay.timer_delivery import PACE_MS, TimerDelivery
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.broker.delay.timers import slot_start_ms
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.system_names import TIMER_TOPIC
from skyrocket.store.config import StoreConfig
from skyrocket.store.files import Disk
from skyrocket.store.message_store import MessageStore
from skyrocket.store.timers.timer_index import TimerIndex, TimerSizes

BEGIN_MS = 1_700_000_000_000
TOPIC, QUEUES = "BenchTimed", 8
COSTED = 50_000
WAITING = int(os.environ.get("SKYROCKET_BENCH_TIMERS", "1_000_000"))
TWO_DAYS_MS = 2 * 24 * 3600 * 1000 - 60_000  # within the roll window, so that no message is rolled
AT_ONCE = 1_000
BODY = bytes(200)


class Bench:
    def __init__(self, home: Path) -> None:
        self.now_ms = BEGIN_MS
        self.store = MessageStore(home, StoreConfig(index_enabled=False))
        self.store.open()
        self._sent = 0
        self._rng = Random(1)
        self.open_timers()

    def open_timers(self) -> None:
        counters = Counters(self.clock)
        self._internal_writer = InternalWriter(self.store, self.clock, lambda: None, counters)
        self.index = TimerIndex(Disk(), self.store.paths, TimerSizes())
        settings = BrokerSettings()
        self.delivery = TimerDelivery(
            self.store, self._internal_writer, self.index, TimerMetrics(self.clock), lambda: settings, counters
        )

    def clock(self) -> int:
        return self.now_ms

    def send(self, count: int, first_ms: int, span_ms: int) -> None:
        """Append messages to the timer topic, due at random times within the span."""
        made = []
        for number in range(self._sent, self._sent + count):
            due_ms = first_ms + self._rng.randrange(span_ms)
            properties = {
                "UNIQ_KEY": f"7F00000100002A9F{number:016X}",
                "TAGS": "TagA",
                "TIMER_DELIVER_MS": str(due_ms),
                "TIMER_OUT_MS": str(slot_start_ms(due_ms, 1000)),
                "REAL_TOPIC": TOPIC,
                "REAL_QID": str(number % QUEUES),
            }
            made.append(Record(TIMER_TOPIC, BODY, encode_properties(properties), born_timestamp=self.now_ms))
        self._internal_writer.write(made)
        self._sent += count
        self.store.take_grown()

    def enqueue_all(self) -> float:
        """Enqueue every sent message in timer log and wheel, and return the CPU seconds."""
        started_s = time.process_time()
        while self.index.queue_offset < self._sent:
            self.now_ms += PACE_MS
            self.delivery.check(self.now_ms)
        return time.process_time() - started_s

    def deliver_until(self, end_ms: int) -> float:
        started_s = time.process_time()
        while self.now_ms < end_ms:
            next_ms = self.delivery.check(self.now_ms)
            self.now_ms = max(self.now_ms, end_ms if next_ms is None else next_ms)
        return time.process_time() - started_s


def anonymous_bytes() -> int:
    """Return the memory of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status has no RssAnon")


def figures() -> Iterator[Figure]:
    yield from _measure_in_a_store(_costs)
    yield from _measure_in_a_store(_memory)


def _measure_in_a_store(measure: object) -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        yield from measure(Bench(home / "store"))  # type: ignore[operator]
    finally:
        shutil.rmtree(home)


def _costs(bench: Bench) -> Iterator[Figure]:
    first_ms = BEGIN_MS + 60_000
    enqueued_s = 0.0
    for _ in range(COSTED // AT_ONCE):
        bench.send(AT_ONCE, first_ms, 5_000)
        enqueued_s += bench.enqueue_all()
    delivered_s = bench.deliver_until(first_ms + 7_000)
    yield Figure("enqueue a timed message", f"{enqueued_s / COSTED * 1e6:.1f} µs")
    yield Figure(
        "deliver a timed message", f"{delivered_s / COSTED * 1e6:.1f} µs", "10,000 a second, with the append to its topic"
    )


def _memory(bench: Bench) -> Iterator[Figure]:
    bench.send(AT_ONCE, BEGIN_MS + 3_600_000, TWO_DAYS_MS - 3_600_000)
    bench.enqueue_all()
    before = anonymous_bytes()
    for _ in range(WAITING // AT_ONCE - 1):
        bench.send(AT_ONCE, BEGIN_MS + 3_600_000, TWO_DAYS_MS - 3_600_000)
        bench.enqueue_all()
    grown = anonymous_bytes() - before
    yield Figure(f"memory of {WAITING:,} waiting messages", f"{grown / 2**20:.1f} MiB", "without pages of files")
    bench.store.flush()
    bench.delivery.plan_checkpoint(bench.now_ms)
    job = bench.delivery.begin_checkpoint()
    assert job is not None
    job.run()
    bench.open_timers()  # as after a kill: there was no clean stop
    started_s = time.perf_counter()
    bench.delivery.check(bench.now_ms)
    yield Figure("recover them after kill -9", f"{time.perf_counter() - started_s:.2f} s")
    assert bench.index.waiting == WAITING
