"""CPU of a process and all that it started, and the clock, from one moment to another. Standard library only: it is also used by
programs that run with another Spark's packages."""

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
    """Since it was made. What a child spent that has ended counts with its parent, as soon as that has waited for it."""

    def __init__(self, root: int | None = None) -> None:
        self._root = os.getpid() if root is None else root
        self._started_s, self._cpu_s = time.perf_counter(), tree_cpu_s(self._root)

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._started_s, tree_cpu_s(self._root) - self._cpu_s)


def tree_cpu_s(root: int) -> float:
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            process = int(folder.name)
            parents[process] = int(after_name[1])
            ticks[process] = sum(map(int, after_name[11:15]))  # its own, user and system, and those of children waited for
    return sum(ticks[process] for process in ticks if _is_below(process, root, parents)) / _TICKS


def _is_below(process: int, root: int, parents: dict[int, int]) -> bool:
    while process > 1:
        if process == root:
            return True
        process = parents.get(process, 0)
    return False
