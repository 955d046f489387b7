"""CPU cost of messages that the broker redirects to a system topic first: delayed, timed and transactional messages.

A figure is the CPU time of the broker's process from the first send until the last message is in its topic, less the CPU time
that the idle broker needs for that long. One run measures our broker and Apache's in turns; the best round of each counts.
SKYROCKET_BENCH_REDIRECTS=transaction measures only the kinds of messages with that word in their name.
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

from tests.support.apache_cluster import send_request

from bench import Figure
from bench.broker import BODY_BYTES, CONNECTIONS, QUEUES, SENDS, WINDOW, Server, all_servers, cpu_s, loadgen, run_load
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode

MESSAGES = 40_000
ROUNDS = int(os.environ.get("SKYROCKET_BENCH_ROUNDS", "4"))
ONLY = os.environ.get("SKYROCKET_BENCH_REDIRECTS", "")
WARM_UP_ROUNDS = 3
REST_SECONDS = 5
LATE_S_MAX = 120.0


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


def count_messages(server: Server, topic: str) -> int:
    """Count the messages in the queues of the topic."""
    total = 0
    for queue_id in range(QUEUES):
        header = GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
        answer = send_request(
            ("127.0.0.1", server.port), Command(RequestCode.GET_MAX_OFFSET, fields=header.to_fields(), opaque=1)
        )
        assert answer is not None, f"{server.name} does not answer"
        total += int(answer.fields.get("offset", 0))
    return total


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
    before = count_messages(server, kind.topic)
    resting = idle_cpu_share(server)
    words = (kind.mode, server.port, kind.topic, CONNECTIONS, WINDOW, MESSAGES, BODY_BYTES, 1, *kind.properties)
    started_s, before_s = time.monotonic(), cpu_s(server.pid)
    done = subprocess.run([loadgen(), *map(str, words)], capture_output=True, check=False)
    if done.returncode != 0 or json.loads(done.stdout)["refused"]:
        return None
    while (there := count_messages(server, kind.topic) - before) < MESSAGES:
        assert time.monotonic() - started_s < LATE_S_MAX, f"{server.name}: {there} of {MESSAGES} came to {kind.topic}"
        time.sleep(0.25)
    spent_s = cpu_s(server.pid) - before_s - resting * (time.monotonic() - started_s)
    return spent_s / MESSAGES * 1e6


def figures() -> Iterator[Figure]:
    home = Path(tempfile.mkdtemp(prefix="skyrocket-bench-", dir=os.environ.get("SKYROCKET_BENCH_DIR")))
    try:
        with all_servers(home) as servers:
            for server in servers:
                run_load(server, SENDS)
            for name, kind in KINDS.items():
                if ONLY in name:
                    yield from _compare(servers, name, kind)
    finally:
        shutil.rmtree(home)


def _compare(servers: list[Server], name: str, kind: RedirectedMessage) -> Iterator[Figure]:
    best = {server.name: float("inf") for server in servers}
    for number in range(WARM_UP_ROUNDS + ROUNDS):
        for server in servers:
            spent = measure(server, kind)
            if number >= WARM_UP_ROUNDS and spent is not None:
                best[server.name] = min(best[server.name], spent)
    if "Apache" in best:
        yield Figure(f"CPU of {name}, Apache's broker", f"{best['Apache']:.1f} µs")
        yield Figure(
            f"CPU of {name}, ours", f"{best['ours']:.1f} µs", f"{best['ours'] / best['Apache']:.2f} of Apache's; the aim is half"
        )
    else:
        yield Figure(f"CPU of {name}", f"{best['ours']:.1f} µs")
