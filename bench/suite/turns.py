"""Measure one load on every server, in turns: a slow moment of the machine meets all of them, and the best round of each counts.

While one server is measured, the processes of the others are stopped (SIGSTOP). A load that fails on a server is reported in the
record, and the others go on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.support.apache.cluster import SPINNING

from bench import _kafka
from bench.suite.generator import Generated, LoadError, generate, read_line
from bench.suite.java_programs import run_delivery, run_program
from bench.suite.kafka_client import FLUSHED
from bench.suite.loads import JAVA, MESSAGES_MAX, Load
from bench.suite.processes import cpu_s, paused, thread_cpu_s
from bench.suite.record import KAFKA, Result, Round
from bench.suite.servers import Server, count_messages

SETTLE_S = 0.3  # after a pause, overdue timers run
STALLED_S, ARRIVED_MIN = 5.0, 0.95

Report = Callable[[str, float], None]  # what was done, and how many seconds it was planned to take


def measure_in_turns(
    load: Load, servers: Sequence[Server], rounds: int, seconds: float, home: Path, report: Report
) -> list[Result]:
    results = {server.name: Result(load.name, server.name, []) for server in servers if can_run(load, server)}
    for number in range(0 if load.warm_up_s else 1, rounds + 1):
        for server in servers:
            result = results.get(server.name)
            if result is None or result.failure:
                continue
            place = home / f"{load.name}-{server.name}-{number}"
            with paused(others(servers, server)):
                time.sleep(SETTLE_S)
                try:
                    if number:
                        result.rounds.append(run_round(load, server, seconds, place))
                    else:
                        warm = load._replace(options={**load.options, **load.warm_up_options})
                        run_round(warm, server, load.warm_up_s, place)
                        continue
                except (LoadError, OSError, AssertionError) as failure:
                    result.failure = (str(failure) or repr(failure))[:500]
            told = f"failed: {result.failure}" if result.failure else summary(result.rounds[-1])
            report(f"{load.name} · {server.name} · round {number} of {rounds}: {told}", planned_s(load, seconds))
    return list(results.values())


def can_run(load: Load, server: Server) -> bool:
    return server.name != KAFKA or load.for_kafka


def others(servers: Iterable[Server], measured: Server) -> list[int]:
    return [pid for server in servers if server is not measured for pid in server.pids]


def planned_s(load: Load, seconds: float) -> float:
    extra = {JAVA: 16.0}.get(load.source, 0.0) + (3.0 if load.mode == "transaction" else 0.0) + load.warm_up_s / 3
    return seconds + SETTLE_S + 0.2 + extra


def summary(measured: Round) -> str:
    text = f"{measured.rate:,.0f} a second, {measured.cpu_us:.1f} µs of CPU"
    if measured.p50_us is not None:
        text += f", p50 {measured.p50_us:,.0f} µs"
    return text + (f", {measured.refused} refused" if measured.refused else "")


def run_round(load: Load, server: Server, seconds: float, home: Path) -> Round:
    """Run a load on one server, and return what it cost."""
    if load.source == JAVA and load.mode != "Delivery":
        return run_program(home, server, load, seconds)
    if load.mode == "transaction":
        return _transaction_round(load, server, seconds)
    before_s = server.cpu_s()
    made = run_delivery(server, load, seconds) if load.source == JAVA else _generate(load, server, seconds)
    return _round(made, server.cpu_s() - before_s, made.seconds)


def _generate(load: Load, server: Server, seconds: float) -> Generated:
    if server.name == KAFKA:
        topic = load.topic + (FLUSHED if load.sync_flush else "")
        words = [text for key, value in load.options.items() for text in (f"--{key}", str(value))]
        command = [sys.executable, "-m", "bench.suite.kafka_client", load.mode, server.nameserver, topic, str(seconds), *words]
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_kafka.ROOT), str(_kafka.use_clients()))))
        return read_line(command, seconds, {**os.environ, "PYTHONPATH": path})
    bound = {"requests": MESSAGES_MAX // load.per_request} if load.mode in ("send", "batch", "transaction") else {}
    return generate(load.mode, server.port, load.topic, seconds, {**bound, **load.options})


def _round(made: Generated, spent_s: float, took_s: float) -> Round:
    if not made.messages:
        raise LoadError(f"all {made.requests} requests were refused: {made.codes}")
    return Round(
        messages=made.messages,
        seconds=took_s,
        cpu_s=spent_s,
        requests=made.requests,
        refused=made.refused,
        client_cpu_s=made.cpu_s,
        p50_us=made.p50_us or None,
        p99_us=made.p99_us or None,
        p999_us=made.p999_us or None,
        codes=made.codes,
    )


def _transaction_round(load: Load, server: Server, seconds: float) -> Round:
    """Commits are oneway, so a round ends when every message is in its topic.

    From its first commit on, the thread that writes Apache's op messages spins instead of waiting. Its time does not count,
    although some of it is work.
    """
    before, started_s = count_messages(server, load.topic), time.monotonic()
    before_s, spun_s = cpu_s(server.pid), thread_cpu_s(server.pid, SPINNING)
    made = _generate(load, server, seconds)
    there, grew_s = 0, time.monotonic()
    while there < made.messages:
        now_there = count_messages(server, load.topic) - before
        if now_there > there:
            there, grew_s = now_there, time.monotonic()
        elif time.monotonic() - grew_s > STALLED_S:  # a busy broker may drop a oneway commit, and checks it back a minute later
            if there < made.messages * ARRIVED_MIN:
                raise LoadError(
                    f"{there} of {made.messages} committed messages came to {load.topic}, then none for {STALLED_S:.0f} s"
                )
            break
        time.sleep(0.05)
    took_s, made.messages = grew_s - started_s, there
    spent_s = cpu_s(server.pid) - before_s - (thread_cpu_s(server.pid, SPINNING) - spun_s)
    return _round(made, spent_s, took_s)
