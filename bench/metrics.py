"""What metrics cost: the CPU time of a broker with them beside that of one without, and the parts of that.

Brokers of ours run side by side: one with `metricsExporterType=PROM`, scraped every five seconds, which is more often than usual,
and two without. Each round sends the same number of messages to each of them, in an order that changes, and the best round of
each counts. The two brokers without metrics differ by what a shared machine does to such figures.
SKYROCKET_BENCH_ROUNDS sets how many rounds there are.
"""

from __future__ import annotations

import asyncio
import os
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.support.ports import free_port

from bench import Benchmark, Figure
from bench.suite.full import folder
from bench.suite.generator import generate
from bench.suite.loads import TOPIC
from bench.suite.servers import Server, ours
from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.metrics.family import Measured, Row, counter
from skyrocket.metrics.page import FRESH_S, MetricsPage

ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "16"))
SCRAPE_EVERY_S = 5.0
PLAIN, AGAIN, MEASURED = "plain", "again", "measured"
WARM_UP_S = 2.0
LOAD_S_MAX = 60.0
SERIES = 10_000
MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages stored.", "topic", "message_type", "is_system")


class SendLoad(NamedTuple):
    """A load: how many messages a round has, and the options of the load generator."""

    messages: int
    options: Mapping[str, object]


LOADS = {
    "4 connections × 64 in flight": SendLoad(60_000, {"connections": 4, "window": 64}),
    "16 sync clients": SendLoad(40_000, {"connections": 16, "window": 1}),
    "one sync client": SendLoad(6_000, {"connections": 1, "window": 1}),
}


def _observe_turn() -> None:
    """What a turn with an append does for metrics: five looks at the clock, and three observations."""
    began_s = perf_counter()
    waited_s = perf_counter() - began_s
    written_s = perf_counter() - perf_counter()
    _STAGES.record_turn(waited_s, written_s)
    _STAGES.record_append(perf_counter() - began_s)


_STAGES = StageTimes()


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
    Benchmark("observe a turn of the event loop and its append", _observe_turn, 1, "one turn in eight, every append"),
    Benchmark(f"build a page of {SERIES:,} series, for each series", _build_page, SERIES, "in slices of 1 ms"),
]


@contextmanager
def _scraped(port: int) -> Iterator[None]:
    """Scrape a broker every few seconds, from a thread."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(SCRAPE_EVERY_S):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _us_per_message(server: Server, load: SendLoad) -> float:
    before_s = _cpu_s(server.pid)
    sent = generate("send", server.port, TOPIC, LOAD_S_MAX, {"requests": load.messages, **load.options})
    return (_cpu_s(server.pid) - before_s) / sent.messages * 1e6


def _cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of a process, exact to the nanosecond: ticks are too coarse for short rounds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def figures() -> Iterator[Figure]:
    assert FRESH_S < SCRAPE_EVERY_S
    port = free_port()
    on = {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
    with folder() as home, ExitStack() as stack:
        starts: dict[str, Mapping[str, object]] = {PLAIN: {}, AGAIN: {}, MEASURED: on}
        servers = {name: stack.enter_context(ours(_made(home / name), settings)) for name, settings in starts.items()}
        stack.enter_context(_scraped(port))
        for server in servers.values():
            generate("send", server.port, TOPIC, WARM_UP_S, {})
        for name, load in LOADS.items():
            yield _compare(servers, name, load)


def _made(home: Path) -> Path:
    home.mkdir()
    return home


def _compare(servers: Mapping[str, Server], name: str, load: SendLoad) -> Figure:
    best = dict.fromkeys(servers, float("inf"))
    order = list(servers)
    for _ in range(ROUNDS):
        order.append(order.pop(0))
        for which in order:
            best[which] = min(best[which], _us_per_message(servers[which], load))
    return Figure(
        f"CPU with metrics beside without, {name}",
        f"{best[MEASURED] / best[PLAIN]:.3f}",
        f"{best[PLAIN]:.1f} µs a message without; another one without: {best[AGAIN] / best[PLAIN]:.3f}; the aim is 1.02",
    )
