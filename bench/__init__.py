"""Every figure that the documents give comes from a module here.

A module has a list `BENCHMARKS`, or a function `figures` where CPU time per message is not the measure. Each benchmark measures
CPU time, not the clock's, and takes the quickest of several rounds: on a shared machine the slower ones measure the neighbours.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import NamedTuple

ROUNDS = 7
ROUND_S = 0.04  # long beside the timer's grain, short enough that some rounds pass undisturbed


class Benchmark(NamedTuple):
    name: str
    run: Callable[[], object]
    messages: int = 1  # that one run handles
    reference: str = ""  # what a prototype measured, in µs per message


class Figure(NamedTuple):
    """A measured value that is told as it is."""

    name: str
    value: str
    remark: str = ""  # a bar, or what else there is to know


def us_per_message(benchmark: Benchmark) -> float:
    run = benchmark.run
    run()  # fills caches
    repeats = 1
    while (spent_s := _timed(run, repeats)) < ROUND_S:
        repeats = max(2 * repeats, int(repeats * ROUND_S / max(spent_s, 1e-6)))
    best_s = min(_timed(run, repeats) for _ in range(ROUNDS))
    return best_s / repeats / benchmark.messages * 1e6


def _timed(run: Callable[[], object], repeats: int) -> float:
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
