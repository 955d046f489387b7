"""Measure elapsed time and the CPU time of a process with its descendants.

This module uses only the standard library, because `_spark_kafka_job` imports it in another environment, with another Spark.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    clock_s: float
    cpu_s: float

    def rates(self, rows: int) -> dict[str, float]:
        return {"rows_per_s": rows / self.clock_s, "rows_per_cpu_s": rows / self.cpu_s}


class TreeWatch:
    """Measures from its construction on. The CPU time of a finished child counts once its parent has waited for it."""

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self._started_s, self._cpu_s = time.perf_counter(), tree_cpu_s(self._root)

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._started_s, tree_cpu_s(self._root) - self._cpu_s)


def tree_cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has ended
            process = int(folder.name)
            parents[process] = int(after_name[1])
            # User and system time, of the process and of the children that it waited for.
            ticks[process] = sum(map(int, after_name[11:15]))
    return sum(ticks[process] for process in ticks if _is_below(process, root, parents)) / _TICKS


def _is_below(process: int, root: int, parents: dict[int, int]) -> bool:
    while process > 1:
        if process == root:
            return True
        process = parents.get(process, 0)
    return False
