"""`python -m tests.sim --seeds 10000`: simulate groups, print each seed that breaks an invariant, and end with 1 if there is one.

`SKYROCKET_SIM_SEED=7 python -m tests.sim` replays seed 7 and prints what happens in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.sim.invariants import ViolationError
from tests.sim.plan import Plan
from tests.sim.world import run_seed

CHUNK = 50
SHOWN_MAX = 20


def run_chunk(first: int, count: int) -> tuple[int, list[str]]:
    """Return the simulated events of some seeds, and what is wrong."""
    events, problems = 0, []
    for seed in range(first, first + count):
        try:
            events += run_seed(seed).steps
        except ViolationError as error:
            problems.append(str(error).strip())
    return events, problems


def replay(seed: int) -> int:
    try:
        world = run_seed(seed, trace=True)
    except ViolationError as error:
        print(error)  # noqa: T201
        return 1
    print("\n".join(world.trace or []))  # noqa: T201
    print(f"seed {seed} ({world.plan.kind}, {world.plan.size} nodes): every invariant holds")  # noqa: T201
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate DLedger groups under faults.")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    chosen = os.environ.get("SKYROCKET_SIM_SEED")
    if chosen is not None:
        return replay(int(chosen))
    started = time.monotonic()
    events, problems = 0, []
    firsts = range(given.first, given.first + given.seeds, CHUNK)
    counts = [min(CHUNK, given.first + given.seeds - first) for first in firsts]
    with ProcessPoolExecutor(given.jobs) as pool:
        for some_events, some_problems in pool.map(run_chunk, firsts, counts):
            events += some_events
            problems += some_problems
            for problem in some_problems:
                print(problem, flush=True)  # noqa: T201
    kinds = Counter(Plan(seed).kind for seed in range(given.first, given.first + given.seeds))
    took = time.monotonic() - started
    print(f"{given.seeds} seeds ({dict(sorted(kinds.items()))}), {events} events, {took:.0f} s: {len(problems)} problems")  # noqa: T201
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
