"""`python -m tests.sim --seeds 10000`: simulate groups, print each seed that breaks an invariant, and end with 1 if there is one.

There are two levels: the state machine over a log in memory, and, a tenth as often, nodes with the broker's store and driver.
`SKYROCKET_SIM_SEED=7 python -m tests.sim` replays seed 7 and prints what happens in it; `SKYROCKET_SIM_STORE_SEED=7` one of the
second level.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from tests.sim.invariants import ViolationError
from tests.sim.plan import Plan
from tests.sim.store.plan import StorePlan
from tests.sim.store.world import SEED_VARIABLE as STORE_SEED_VARIABLE
from tests.sim.store.world import run_store_seed
from tests.sim.world import SEED_VARIABLE, World, run_seed

CHUNK = 50


class Level(NamedTuple):
    name: str
    run: Callable[..., World]
    plan: type[Plan]
    variable: str


LEVELS = {
    "state machine": Level("state machine", run_seed, Plan, SEED_VARIABLE),
    "store": Level("store", run_store_seed, StorePlan, STORE_SEED_VARIABLE),
}


def run_chunk(level: str, first: int, count: int) -> tuple[int, list[str]]:
    """Return the simulated events of some seeds, and what is wrong."""
    events, problems = 0, []
    for seed in range(first, first + count):
        try:
            events += LEVELS[level].run(seed).steps
        except ViolationError as error:
            problems.append(f"{level}: {str(error).strip()}")
    return events, problems


def run_level(level: Level, first: int, seeds: int, jobs: int) -> int:
    """Run the seeds of a level, and return how many problems there are."""
    started = time.monotonic()
    events, problems = 0, 0
    firsts = range(first, first + seeds, CHUNK)
    counts = [min(CHUNK, first + seeds - each) for each in firsts]
    with ProcessPoolExecutor(jobs) as pool:
        for some_events, some_problems in pool.map(run_chunk, [level.name] * len(firsts), firsts, counts):
            events += some_events
            problems += len(some_problems)
            for problem in some_problems:
                print(problem, flush=True)  # noqa: T201
    kinds = dict(sorted(Counter(level.plan(seed).kind for seed in range(first, first + seeds)).items()))
    took = time.monotonic() - started
    print(f"{level.name}: {seeds} seeds ({kinds}), {events} events, {took:.0f} s: {problems} problems", flush=True)  # noqa: T201
    return problems


def replay(level: Level, seed: int) -> int:
    try:
        world = level.run(seed, trace=True)
    except ViolationError as error:
        print(error)  # noqa: T201
        return 1
    print("\n".join(world.trace or []))  # noqa: T201
    print(f"seed {seed} ({world.plan.kind}, {world.plan.size} nodes): every invariant holds")  # noqa: T201
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Simulate DLedger groups under faults.")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--store-seeds", type=int, help="of the second level; a tenth of --seeds unless given")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    for level in LEVELS.values():
        chosen = os.environ.get(level.variable)
        if chosen is not None:
            return replay(level, int(chosen))
    store_seeds = given.seeds // 10 if given.store_seeds is None else given.store_seeds
    problems = run_level(LEVELS["state machine"], given.first, given.seeds, given.jobs)
    problems += run_level(LEVELS["store"], given.first, store_seeds, given.jobs)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
