"""Apache's own benchmark programs against `skyrocket run`: a producer and a consumer at full speed, and not one failure.

SKYROCKET_BENCHMARK_S says for how long (8 seconds).
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.support.apache.archive import with_archive
from tests.support.apache.cluster import JavaProcess
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.waiting import WAIT_S_MAX

pytestmark = pytest.mark.interop

SECONDS = float(os.environ.get("SKYROCKET_BENCHMARK_S", "4"))
REPORT_MS = 1000
TOPIC, GROUP = "BenchmarkTest", "benchmark_consumer"


class Benchmark(JavaProcess):
    """One of org.apache.rocketmq.example.benchmark, which prints a line of figures every second."""

    def __init__(self, program: str, home: Path, nameserver: str, *arguments: str) -> None:
        main = f"org.apache.rocketmq.example.benchmark.{program}"
        shared = ["-n", nameserver, "-t", TOPIC, "-ri", str(REPORT_MS)]
        super().__init__(program, home, ["-Xmx256m", *with_archive(), main, *shared, *arguments])

    def reports(self) -> list[dict[str, float]]:
        """What it printed so far, a table of figures for each line."""
        lines = (self.home / "output.log").read_text().splitlines()
        reports = [line.split(" | ")[1:] for line in lines if line.startswith("Current Time")]
        return [{name: float(value) for name, value in (part.rsplit(":", 1) for part in report)} for report in reports]

    def wait_for_reports(self, count: int, figure: str) -> list[dict[str, float]]:
        """All reports, once there are `count` and the last one has a figure above 0: programs take seconds to get going."""
        deadline = time.monotonic() + WAIT_S_MAX + count * REPORT_MS / 1000
        while len(reports := self.reports()) < count or reports[-1][figure] <= 0:
            assert self.process.poll() is None, f"{self.name} ended:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"{self.name} reports no {figure}:\n{self.log_tail()}"
            time.sleep(0.1)
        return reports


def test_the_benchmark_programs_of_apache_run_without_a_failure(tmp_path: Path) -> None:
    count = max(2, int(SECONDS * 1000 / REPORT_MS))
    with Skyrocket(tmp_path / "skyrocket", {"mappedFileSizeCommitLog": 64 * 1024 * 1024}) as server:
        producer = Benchmark("Producer", tmp_path / "producer", server.nameserver, "-w", "16", "-s", "1024")
        consumer = Benchmark("Consumer", tmp_path / "consumer", server.nameserver, "-g", GROUP)
        try:
            sent = producer.wait_for_reports(count, "Send TPS")
            consumed = consumer.wait_for_reports(count, "Consume TPS")
        finally:
            producer.kill()
            consumer.kill()
        server.stop()
        assert server.complaints() == [], server.log_tail(100)
    assert {(report["Send Failed"], report["Response Failed"]) for report in sent} == {(0, 0)}, sent
    assert {report["Consume Fail"] for report in consumed} == {0}, consumed
    assert sent[-1]["Send TPS"] > 0
    assert consumed[-1]["Consume TPS"] > 0
    assert not re.search(r"\b(WARN|ERROR)\b.*(?:SYSTEM_BUSY|timeout)", producer.log_tail())
