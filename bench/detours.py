"""What messages cost that do not go straight to their queue: delayed, timed and transactional ones, ours beside Apache's.

CPU time of the broker's process from the first send until the last message is in its topic, less what it spends at rest in that
time. Both brokers are measured in turns, in the same run; the best round of each counts. SKYROCKET_BENCH_DETOURS=transaction
measures only those with that word in their name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.apache_cluster import asked

from bench import Figure
from bench.broker import BODY_BYTES, CONNECTIONS, QUEUES, SENDS, WINDOW, Server, all_servers, cpu_s, loaded, loadgen
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode

MESSAGES = 40_000
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "4"))
ONLY = os.environ.get("SKYROCKET_BENCH_DETOURS", "")
WARM_UP_ROUNDS = 3
REST_SECONDS = 5
LATE_S_MAX = 120.0


class Detour(NamedTuple):
    """A kind of message: how the load generator sends it, and the property that makes it such."""

    mode: str
    topic: str
    properties: tuple[str, ...] = ()


DETOURS = {
    "a delayed message (level 1)": Detour("send", "BenchDelayed", ("DELAY", "1")),
    "a timed message (two seconds)": Detour("send", "BenchTimed", ("TIMER_DELAY_MS", "2000")),
    "a transaction, committed": Detour("transaction", "BenchTransactions"),
}


def arrived(server: Server, topic: str) -> int:
    """Messages in the topic's queues."""
    total = 0
    for queue_id in range(QUEUES):
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = asked(("127.0.0.1", server.port), Command(RequestCode.GET_MAX_OFFSET, fields=header.to_fields(), opaque=1))
        assert answer is not None, f"{server.name} does not answer"
        total += int(answer.fields.get("offset", 0))
    return total


def at_rest(server: Server) -> float:
    """CPU seconds a second, of the calmest second: a JVM still compiles and collects for a while after a load."""
    calmest = 1.0
    for _ in range(REST_SECONDS):
        before_s = cpu_s(server.pid)
        time.sleep(1)
        calmest = min(calmest, cpu_s(server.pid) - before_s)
    return calmest


def cost(server: Server, detour: Detour) -> float | None:
    """CPU µs of the server per message; None when it refused some."""
    before = arrived(server, detour.topic)
    resting = at_rest(server)
    words = (detour.mode, server.port, detour.topic, CONNECTIONS, WINDOW, MESSAGES, BODY_BYTES, 1, *detour.properties)
    started_s, before_s = time.monotonic(), cpu_s(server.pid)
    done = subprocess.run([loadgen(), *map(str, words)], capture_output=True, check=False)
    if done.returncode != 0 or json.loads(done.stdout)["refused"]:
        return None
    while (there := arrived(server, detour.topic) - before) < MESSAGES:
        assert time.monotonic() - started_s < LATE_S_MAX, f"{server.name}: {there} of {MESSAGES} came to {detour.topic}"
        time.sleep(0.25)
    spent_s = cpu_s(server.pid) - before_s - resting * (time.monotonic() - started_s)
    return spent_s / MESSAGES * 1e6


def figures() -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        with all_servers(home) as servers:
            for server in servers:
                loaded(server, SENDS)
            for name, detour in DETOURS.items():
                if ONLY in name:
                    yield from _compared(servers, name, detour)
    finally:
        shutil.rmtree(home)


def _compared(servers: list[Server], name: str, detour: Detour) -> Iterator[Figure]:
    best = {server.name: float("inf") for server in servers}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for server in servers:
            spent = cost(server, detour)
            if number >= WARM_UP_ROUNDS and spent is not None:
                best[server.name] = min(best[server.name], spent)
    if "Apache" in best:
        yield Figure(f"CPU of {name}, Apache's broker", f"{best['Apache']:.1f} µs")
        yield Figure(
            f"CPU of {name}, ours", f"{best['ours']:.1f} µs", f"{best['ours'] / best['Apache']:.2f} of Apache's; the aim is half"
        )
    else:
        yield Figure(f"CPU of {name}", f"{best['ours']:.1f} µs")
