"""Benchmarks: each figure in the documents comes from a module of this package.

A module has a list `BENCHMARKS` of functions to measure in CPU time per message, or a function `figures` that yields other
values. Benchmarks measure CPU time, not elapsed time, and report the fastest of several rounds: on a shared machine the slower
rounds measure other processes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import NamedTuple

ROUNDS = 7
ROUND_S = 0.04  # long compared with the timer's resolution, short enough that some rounds run undisturbed


class Benchmark(NamedTuple):
    name: str
    run: Callable[[], object]
    messages: int = 1  # in one run
    reference: str = ""  # the figure of a prototype, in µs per message


class Figure(NamedTuple):
    """A measured value, formatted for the table."""

    name: str
    value: str
    remark: str = ""  # the aim, or a comment


def us_per_message(benchmark: Benchmark) -> float:
    """Measure the CPU time of a benchmark, in µs per message."""
    run = benchmark.run
    run()  # fills caches
    repeats = 1
    while (spent_s := _cpu_time_s(run, repeats)) < ROUND_S:
        repeats = max(2 * repeats, int(repeats * ROUND_S / max(spent_s, 1e-6)))
    best_s = min(_cpu_time_s(run, repeats) for _ in range(ROUNDS))
    return best_s / repeats / benchmark.messages * 1e6


def _cpu_time_s(run: Callable[[], object], repeats: int) -> float:
    collecting = gc.isenabled()
    gc.disable()
    try:
        started_s = time.process_time()
        for _ in range(repeats):
            run()
        return time.process_time() - started_s
    finally:
        if collecting:
            gc.enable()
