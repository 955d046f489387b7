"""Apache's own benchmark programs (`org.apache.rocketmq.example.benchmark`) against a broker, for some seconds.

A program warms up until it reports a rate, and some seconds more. Then the messages that arrive in the topic are counted, and
the CPU times of the broker and of the Java process. All processes share the cores of the machine, so the Java process's share of
the CPU time tells how much of the rate is its own doing. `Consumer` runs beside a `Producer`, because it reads only new messages.

`Delivery` (bench/java) is not Apache's, but has Apache's producer and push consumer: it times messages from one to the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.apache.cluster import JavaProcess
from tests.support.apache.packages import JAVA_OPENS, compiled, library

from bench.suite.generator import Generated, LoadError, read_line
from bench.suite.loads import BY_NAME, JAVA_TOPIC, Load
from bench.suite.processes import cpu_s
from bench.suite.record import Round
from bench.suite.servers import WHOLE_JVM, Server, count_messages

WARM_UP_S, BEGIN_S_MAX = 5.0, 60.0
REPORT_MS = 1000
DELIVERY = Path(__file__).parents[1] / "java" / "Delivery.java"
DELIVERY_BEGIN_S_MAX = 30.0  # until the consumer has its queues
HEAP = ["-Xmx512m"]


class Program(JavaProcess):
    """One of the programs. It prints a line every second: Current Time: … | Send TPS: 6400 | Send Failed: 0 | …"""

    def __init__(self, name: str, home: Path, server: Server, topic: str, options: Mapping[str, object]) -> None:
        main = f"org.apache.rocketmq.example.benchmark.{name}"
        words = {"-n": server.nameserver, "-t": topic, "-ri": REPORT_MS, **options}
        arguments = [str(part) for pair in words.items() for part in pair]
        super().__init__(name, home, [*WHOLE_JVM, *HEAP, "-cp", f"{library()}/*", main, *arguments])

    def reports(self) -> list[dict[str, float]]:
        lines = (self.home / "output.log").read_text(errors="replace").splitlines()
        return [read_report(line) for line in lines if line.startswith("Current Time")]


def read_report(line: str) -> dict[str, float]:
    """The figures of a line: names and numbers, separated by bars."""
    figures = {}
    for part in line.split("|")[1:]:
        name, _, value = part.rpartition(":")
        try:
            figures[name.strip()] = float(value)
        except ValueError:
            continue
    return figures


def failures(reports: list[dict[str, float]]) -> int:
    """Failed messages of the last report, whose counts are totals."""
    last = reports[-1] if reports else {}
    return int(sum(value for name, value in last.items() if name in ("Send Failed", "Response Failed", "Consume Fail")))


@contextmanager
def _running(home: Path, server: Server, load: Load) -> Iterator[list[Program]]:
    """The program of a load, and the producer that a consumer needs. The first one is measured."""
    programs: list[Program] = []
    try:
        if load.mode == "Consumer":
            producer = BY_NAME["java-producer"]
            programs.append(Program("Producer", home / "producer", server, JAVA_TOPIC, producer.options))
            _wait_for_rate(programs[0])
        group = {"-g": f"bench_{home.name}"} if load.mode == "Consumer" else {}
        programs.insert(0, Program(load.mode, home / load.mode.lower(), server, load.topic, {**load.options, **group}))
        _wait_for_rate(programs[0])
        yield programs
    finally:
        for program in programs:
            program.kill()


def _wait_for_rate(program: Program) -> None:
    deadline = time.monotonic() + BEGIN_S_MAX
    while not any(report.get("Send TPS", report.get("Consume TPS", 0)) > 0 for report in program.reports()):
        if program.process.poll() is not None:
            raise LoadError(f"{program.name} ended: {program.log_tail()[-300:]}")
        if time.monotonic() > deadline:
            raise LoadError(f"{program.name} reported no message within {BEGIN_S_MAX:.0f} s")
        time.sleep(0.1)


def run_delivery(server: Server, load: Load, seconds: float) -> Generated:
    """Time messages from Apache's producer to Apache's push consumer, after a warm-up in the same process."""
    classes = compiled(DELIVERY)
    command = ["java", *WHOLE_JVM, *HEAP, *JAVA_OPENS, "-cp", f"{classes}:{library()}/*", DELIVERY.stem]
    words = [server.nameserver, load.topic, seconds, load.options["pace"], WARM_UP_S]
    return read_line([*command, *map(str, words)], seconds + WARM_UP_S + DELIVERY_BEGIN_S_MAX)


def run_program(home: Path, server: Server, load: Load, seconds: float) -> Round:
    with _running(home, server, load) as programs:
        time.sleep(WARM_UP_S)
        pids = [program.process.pid for program in programs]
        started_s, cpu, java_cpu = time.monotonic(), cpu_s(server.pid), sum(map(cpu_s, pids))
        before, reported = count_messages(server, load.topic), len(programs[0].reports())
        time.sleep(seconds)
        took_s = time.monotonic() - started_s
        messages = count_messages(server, load.topic) - before
        spent_s, java_s = cpu_s(server.pid) - cpu, sum(map(cpu_s, pids)) - java_cpu
        reports = programs[0].reports()
    if load.mode == "Consumer":
        consumed = [report.get("Consume TPS", 0) for report in reports[reported:]]
        messages = int(sum(consumed) / max(1, len(consumed)) * took_s)
    if not messages:
        raise LoadError(f"{load.mode} moved no message in {took_s:.0f} s")
    return Round(
        messages=messages, seconds=took_s, cpu_s=spent_s, client_cpu_s=java_s, requests=messages, refused=failures(reports)
    )
