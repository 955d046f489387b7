"""Servers for the tests of fail-overs, and the report of what they have measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import failover_report as report
from tests.support.processes.skyrocket_process import SkyrocketNameserver


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path / "names") as started:
        yield started.nameserver


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the report. Processes of pytest-xdist have none: their rows stay with them."""
    if report.ROWS:
        terminalreporter.section("fail-overs")
        for line in report.lines():
            terminalreporter.write_line(line)
