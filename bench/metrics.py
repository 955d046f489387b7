"""What metrics cost: the CPU time of a broker with them beside without, and the parts of that.

One broker runs in this process and is loaded by the load generator. Between rounds, everything that metrics observe is switched
on or off, in an order by chance: two processes would differ by more than metrics cost. Rounds are short, and each with metrics is
compared with the one without beside it, so that what else the machine does falls on both. The figure is the median of the ratios.
"Off" stands twice, to show how exact the figures are. A scrape is a figure of its own.
SKYROCKET_BENCH_ROUNDS sets how many rounds there are.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.support.ports import free_port
from tests.support.processes.http_client import ask_async

from bench import Benchmark, Figure
from bench.suite.generator import generator
from bench.suite.loads import TOPIC
from skyrocket.broker.broker import Broker
from skyrocket.broker.metrics.rpc_latency import RpcLatency
from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.broker.settings import BrokerSettings
from skyrocket.cli.server_command import tune_garbage_collector
from skyrocket.clock import monotonic_ms
from skyrocket.metrics.family import Measured, Row, counter
from skyrocket.metrics.page import MetricsPage
from skyrocket.net.router import ResponseObserver
from skyrocket.net.server import SERVED_MS_BITS
from skyrocket.settings.metrics import MetricsExporter
from skyrocket.store.horizon import Horizon

ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "100"))
SERIES = 10_000
OFF, AGAIN, ON = "off", "off again", "on"
MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages stored.", "topic", "message_type", "is_system")


class SendLoad(NamedTuple):
    """A load: how many messages a round has, and how many connections and sends in flight."""

    messages: int
    connections: int
    window: int


LOADS = {
    "4 connections × 64 in flight": SendLoad(20_000, 4, 64),
    "16 sync clients": SendLoad(2_000, 16, 1),
    "one sync client": SendLoad(1_000, 1, 1),
}


def _observe_turn() -> None:
    """What one turn in 64 does for its stages: six looks at the clock, and three observations."""
    began_s = perf_counter()
    waited_s = perf_counter() - began_s
    written_s = perf_counter() - perf_counter()
    _STAGES.record_turn(waited_s, written_s)
    _STAGES.record_append(perf_counter() - perf_counter())


def _observe_requests() -> None:
    """What every turn of sends does: the server has looked at the clock anyway."""
    kind = 310 << SERVED_MS_BITS | 1
    _RPC.turns[kind] = _RPC.turns.get(kind, 0) + sum([1])


_STAGES = StageTimes()
_RPC = RpcLatency(Horizon(0), monotonic_ms)


def _rows() -> list[Row]:
    return [((f"topic-{number}", "normal", "false"), number) for number in range(SERIES)]


def _build_page() -> None:
    page = MetricsPage(
        {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a", "otel_scope_name": "broker-meter"},
        lambda: SERIES,
        [lambda: [Measured(MESSAGES_IN, _rows())]],
    )
    asyncio.run(page.render())


BENCHMARKS = [
    Benchmark("observe a turn of the event loop and its append", _observe_turn, 1, "one turn in 64"),
    Benchmark("observe how long the sends of a turn took", _observe_requests, 1, "every turn"),
    Benchmark(f"build a page of {SERIES:,} series, for each series", _build_page, SERIES, "in slices of 1 ms"),
]


class SwitchedBroker:
    """A broker whose metrics can be switched off while it runs."""

    def __init__(self, folder: str) -> None:
        self.port = free_port(-2, 1)
        settings = BrokerSettings(
            port=self.port,
            store_path=folder,
            metrics_exporter=MetricsExporter.PROM,
            metrics_port=0,
            disk_max_used_percent=95,
            disk_clean_forcibly_percent=95,
            disk_warning_percent=95,
        )
        self.broker = Broker(settings)
        self._responses: ResponseObserver | None = None

    def switch(self, *, on: bool) -> None:
        assert self.broker.monitoring is not None
        stages, turn, router = self.broker.stage_watch.times, self.broker.server._turn, self.broker.router
        self._responses = self._responses or router.responses
        self.broker.server.served_turns = self._responses.notes() if on and isinstance(self._responses, RpcLatency) else None
        if on:
            stages.watch_appends(self.broker.store.log, self.broker.context.answers)
            turn.observe(stages)
            router.responses = self._responses
        else:
            turn.observer = turn._observer_now = router.responses = None
            self.broker.store.log.on_written = self.broker.context.answers.on_written = None

    async def us_per_message(self, load: SendLoad, *, on: bool) -> float:
        """Return the CPU time of this process for one round; that of the generator does not count."""
        assert self.broker.monitoring is not None
        self.switch(on=on)
        options = {"port": self.port, "topic": TOPIC, "seconds": 60, "requests": load.messages}
        options |= {"connections": load.connections, "window": load.window}
        words = [text for key, value in options.items() for text in (f"--{key}", str(value))]
        sending = await asyncio.create_subprocess_exec(str(generator()), "send", *words, stdout=asyncio.subprocess.DEVNULL)
        began_s = time.process_time()
        await sending.wait()
        spent_s = time.process_time() - began_s
        return spent_s / load.messages * 1e6

    async def scrape_ms(self) -> float:
        """Return the CPU time of a page, of all threads; that of the client is in it, too."""
        assert self.broker.monitoring is not None
        await asyncio.sleep(1.05)  # a younger page is given out again
        began_s = time.process_time()
        await ask_async(self.broker.monitoring.port, "/metrics")
        return (time.process_time() - began_s) * 1e3


def figures() -> Iterator[Figure]:
    try:
        import uvloop  # noqa: PLC0415 — as in the broker's command, where it is installed
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with tempfile.TemporaryDirectory() as folder, runner:
        switched = SwitchedBroker(str(Path(folder) / "store"))
        tune_garbage_collector()
        runner.run(switched.broker.start())
        try:
            runner.run(switched.us_per_message(LOADS["16 sync clients"], on=True))  # warms up
            for name, load in LOADS.items():
                yield runner.run(_compare(switched, name, load))
            page_ms = min(runner.run(switched.scrape_ms()) for _ in range(3))
            yield Figure("a scrape of a broker with few topics", f"{page_ms:.1f} ms", "every 15 s, usually")
        finally:
            runner.run(switched.broker.close())


async def _compare(switched: SwitchedBroker, name: str, load: SendLoad) -> Figure:
    spent: dict[str, list[float]] = {OFF: [], AGAIN: [], ON: []}
    for _ in range(ROUNDS):
        for state in random.sample(list(spent), len(spent)):
            spent[state].append(await switched.us_per_message(load, on=state == ON))
    ratio = {state: statistics.median(a / b for a, b in zip(spent[state], spent[OFF], strict=True)) for state in (ON, AGAIN)}
    return Figure(
        f"CPU with metrics beside without, {name}",
        f"{ratio[ON]:.3f}",
        f"{statistics.median(spent[OFF]):.1f} µs a message without; without, again: {ratio[AGAIN]:.3f}; the aim is 1.02",
    )
