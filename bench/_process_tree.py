"""Measure elapsed time and the CPU time of a process with its descendants.

This module uses only the standard library, because `_spark_kafka_job` imports it in another environment, with another Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
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

    def __init__(self, apart: Collection[int] = ()) -> None:
        """`apart` are processes that do not count, nor do their descendants: servers that this process started."""
        self._apart = apart
        self._started_s, self._cpu_s = time.perf_counter(), tree_cpu_s(os.getpid(), apart)

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._started_s, tree_cpu_s(os.getpid(), self._apart) - self._cpu_s)


def tree_cpu_s(root: int, apart: Collection[int] = ()) -> float:
    """Return the CPU seconds of a process and its descendants, but for those `apart` and theirs."""
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
    return sum(ticks[process] for process in ticks if _is_below(process, root, parents, apart)) / _TICKS


def _is_below(process: int, root: int, parents: dict[int, int], apart: Collection[int]) -> bool:
    while process > 1 and process not in apart:
        if process == root:
            return True
        process = parents.get(process, 0)
    return False
