"""A server from its start to kill -9 and back: how long it takes to start, what it takes at rest, how long it takes to recover.

    start → rest → messages → kill -9 → start again, until it answers with the last offset

"Ready" means that a nameserver knows the broker and the broker answers. Kafka is measured as part of the loads only.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from bench.suite.generator import LoadError, generate
from bench.suite.loads import QUEUES, TOPIC
from bench.suite.processes import cpu_s, resident_mb
from bench.suite.record import APACHE, OURS, Lifecycle
from bench.suite.servers import STARTS, count_messages
from bench.suite.turns import Report

STARTS_OF = {OURS: 3, APACHE: 2}
CALM_S, REST_S = 2.0, 5.0
MESSAGES = 300_000
SEND_S_MAX = 40.0
PLANNED_S = {OURS: 20.0, APACHE: 55.0}


def measure_lifecycle(name: str, home: Path, report: Report) -> Lifecycle:
    measured = Lifecycle(name)
    try:
        _measure(measured, home)
    except (LoadError, OSError, AssertionError) as failure:
        measured.failure = (str(failure) or repr(failure))[:500]
    told = measured.failure or f"ready in {measured.start_s:.2f} s, after kill -9 in {measured.recovery_s:.2f} s"
    report(f"lifecycle · {name}: {told}", PLANNED_S[name])
    return measured


def _measure(measured: Lifecycle, home: Path) -> None:
    start = STARTS[measured.server]
    started: list[float] = []
    for number in range(STARTS_OF[measured.server]):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        with start(home, {}) as server:
            started.append(server.ready_s)
            if number:
                continue
            time.sleep(CALM_S)
            measured.rest_mb = resident_mb(server.pid)
            before_s = cpu_s(server.pid)
            time.sleep(REST_S)
            measured.rest_cpu_share = (cpu_s(server.pid) - before_s) / REST_S
    measured.start_s = min(started)
    with start(home, {}) as server:
        sent = generate("send", server.port, TOPIC, SEND_S_MAX, {"requests": MESSAGES}).messages
        # Leaving the block kills the server.
    with start(home, {}) as server:
        measured.recovery_s = server.ready_s
        measured.recovered_messages = count_messages(server, TOPIC, QUEUES)
    if measured.recovered_messages < sent:
        raise LoadError(f"{measured.recovered_messages} of {sent} messages were there after kill -9")
