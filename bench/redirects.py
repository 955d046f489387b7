"""CPU cost of messages that the broker redirects to a system topic first: delayed, timed and transactional messages.

A figure is the CPU time of the broker's process from the first send until the last message is in its topic, less the CPU time
that the idle broker needs for that long. One run measures our broker and Apache's in turns; the best round of each counts.
SKYROCKET_BENCH_REDIRECTS=transaction measures only the kinds of messages with that word in their name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench import Figure
from bench.suite.full import folder
from bench.suite.generator import LoadError, generate
from bench.suite.loads import QUEUES, TOPIC
from bench.suite.processes import cpu_s
from bench.suite.record import APACHE, OURS
from bench.suite.servers import STARTS, Server, count_messages, missing

MESSAGES = 40_000
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "4"))
ONLY = os.environ.get("SKYROCKET_BENCH_REDIRECTS", "")
WARM_UP_ROUNDS = 3
REST_SECONDS = 5
LOAD_S_MAX, LATE_S_MAX = 60.0, 120.0
WARM_UP_S = 3.0


class RedirectedMessage(NamedTuple):
    """A kind of message: the mode of the load generator, and the properties that make the broker redirect the message."""

    mode: str
    topic: str
    properties: tuple[str, ...] = ()


KINDS = {
    "a delayed message (level 1)": RedirectedMessage("send", "BenchDelayed", ("DELAY", "1")),
    "a timed message (two seconds)": RedirectedMessage("send", "BenchTimed", ("TIMER_DELAY_MS", "2000")),
    "a transaction, committed": RedirectedMessage("transaction", "BenchTransactions"),
}


def idle_cpu_share(server: Server) -> float:
    """Return the CPU seconds per second of the calmest second: after a load, a JVM compiles and collects for a while."""
    calmest = 1.0
    for _ in range(REST_SECONDS):
        before_s = cpu_s(server.pid)
        time.sleep(1)
        calmest = min(calmest, cpu_s(server.pid) - before_s)
    return calmest


def measure(server: Server, kind: RedirectedMessage) -> float | None:
    """Return the CPU time of the server in µs per message, or None when the server refused messages."""
    before = count_messages(server, kind.topic, QUEUES)
    resting = idle_cpu_share(server)
    properties = dict(zip(("property", "value"), kind.properties, strict=False))
    started_s, before_s = time.monotonic(), cpu_s(server.pid)
    try:
        sent = generate(kind.mode, server.port, kind.topic, LOAD_S_MAX, {"requests": MESSAGES, **properties})
    except LoadError:
        return None
    if sent.refused:
        return None
    while (there := count_messages(server, kind.topic, QUEUES) - before) < MESSAGES:
        assert time.monotonic() - started_s < LATE_S_MAX, f"{server.name}: {there} of {MESSAGES} came to {kind.topic}"
        time.sleep(0.25)
    spent_s = cpu_s(server.pid) - before_s - resting * (time.monotonic() - started_s)
    return spent_s / MESSAGES * 1e6


def figures() -> Iterator[Figure]:
    with folder() as home, ExitStack() as stack:
        names = [name for name in (OURS, APACHE) if not missing(name)]
        servers = [stack.enter_context(STARTS[name](_make_folder(home / name), {})) for name in names]
        for server in servers:
            generate("send", server.port, TOPIC, WARM_UP_S, {})
        for name, kind in KINDS.items():
            if ONLY in name:
                yield from _compare(servers, name, kind)


def _make_folder(home: Path) -> Path:
    home.mkdir()
    return home


def _compare(servers: Sequence[Server], name: str, kind: RedirectedMessage) -> Iterator[Figure]:
    best = {server.name: float("inf") for server in servers}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for server in servers:
            spent = measure(server, kind)
            if number >= WARM_UP_ROUNDS and spent is not None:
                best[server.name] = min(best[server.name], spent)
    if APACHE in best:
        yield Figure(f"CPU of {name}, Apache's broker", f"{best[APACHE]:.1f} µs")
        yield Figure(
            f"CPU of {name}, ours", f"{best[OURS]:.1f} µs", f"{best[OURS] / best[APACHE]:.2f} of Apache's; the aim is half"
        )
    else:
        yield Figure(f"CPU of {name}", f"{best[OURS]:.1f} µs")
