"""CPU time and memory of a process, and pauses of processes whose turn it is not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """CPU seconds of a process since its start. The system counts in steps of 10 ms."""
    return _spent_s(Path(f"/proc/{pid}"))


def thread_cpu_s(pid: int, name: str) -> float:
    """CPU seconds of the threads of a process with this name (its first 15 characters); 0 when there is none."""
    total_s = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # some threads end meanwhile
            if (task / "comm").read_text().strip() == name:
                total_s += _spent_s(task)
    return total_s


def _spent_s(folder: Path) -> float:
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / _TICKS


def resident_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


@contextmanager
def paused(pids: Iterable[int]) -> Iterator[None]:
    """Stop processes for a while, so that they take no CPU time from the one that is measured."""
    stopped = list(pids)
    try:
        for pid in stopped:
            _signal(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has ended, which its next turn reports
        os.kill(pid, number)
