"""What metrics cost: the CPU time of a broker with them beside that of one without, and the parts of that.

Two brokers of ours run side by side, one with `metricsExporterType=PROM` and scraped every five seconds, which is more often than
usual. Each round sends the same number of messages to one and then to the other; who is first changes from round to round. The
figure is the median of the ratios of all rounds. SKYROCKET_BENCH_ROUNDS sets how many rounds there are.

A shared machine disturbs single rounds by more than metrics cost. So a second figure is computed: how many turns of the event
loop the load took, by the broker's own histogram, times what it costs to observe one, in parts of the broker's CPU time.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.support.ports import free_port

from bench import Benchmark, Figure, us_per_message
from bench.suite.full import folder
from bench.suite.generator import generate
from bench.suite.loads import TOPIC
from bench.suite.processes import cpu_s
from bench.suite.servers import Server, ours
from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.metrics.family import Measured, Row, counter
from skyrocket.metrics.page import FRESH_S, MetricsPage

ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "12"))
SCRAPE_EVERY_S = 5.0
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
    "one sync client": SendLoad(8_000, {"connections": 1, "window": 1}),
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


_TURN = Benchmark("observe a turn of the event loop and its append", _observe_turn, 1, "for each turn, not message")
BENCHMARKS = [
    _TURN,
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
    before_s = cpu_s(server.pid)
    sent = generate("send", server.port, TOPIC, LOAD_S_MAX, {"requests": load.messages, **load.options})
    return (cpu_s(server.pid) - before_s) / sent.messages * 1e6


def figures() -> Iterator[Figure]:
    assert FRESH_S < SCRAPE_EVERY_S
    port = free_port()
    settings = {"metricsExporterType": "PROM", "metricsPromExporterPort": port}
    with folder() as home, ExitStack() as stack:
        plain = stack.enter_context(ours(_made(home / "plain"), {}))
        measured = stack.enter_context(ours(_made(home / "measured"), settings))
        stack.enter_context(_scraped(port))
        for server in (plain, measured):
            generate("send", server.port, TOPIC, WARM_UP_S, {})
        for name, load in LOADS.items():
            yield from _compare(plain, measured, port, name, load)


def _made(home: Path) -> Path:
    home.mkdir()
    return home


def _turns(port: int) -> int:
    """Return how many turns the broker has observed."""
    time.sleep(FRESH_S)  # a younger page is given out again
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30).read().decode()
    found = re.search(r'skyrocket_stage_seconds_count\{[^}]*stage="queue"\} (\d+)', page)
    assert found is not None, page
    return int(found[1])


def _compare(plain: Server, measured: Server, port: int, name: str, load: SendLoad) -> Iterator[Figure]:
    ratios, without = list[float](), list[float]()
    turns = _turns(port)
    for number in range(ROUNDS):
        order = (plain, measured) if number % 2 else (measured, plain)
        spent = {server.pid: _us_per_message(server, load) for server in order}
        ratios.append(spent[measured.pid] / spent[plain.pid])
        without.append(spent[plain.pid])
    turns = _turns(port) - turns
    observing_us = us_per_message(_TURN) * turns / (ROUNDS * load.messages)
    low, _, high = statistics.quantiles(ratios, n=4)
    yield Figure(
        f"observing turns, {name}",
        f"{observing_us / statistics.median(without):.2%}",
        f"of the CPU time: {ROUNDS * load.messages / turns:.1f} messages a turn, {observing_us:.3f} µs a message",
    )
    yield Figure(
        f"CPU with metrics beside without, {name}",
        f"{statistics.median(ratios):.3f}",
        f"half of {ROUNDS} rounds {low:.3f}–{high:.3f}; {statistics.median(without):.1f} µs a message without; the aim is 1.02",
    )
