"""The store level finds bugs that are planted in the store, the horizon, the driver's surroundings and the state machine."""

from __future__ import annotations

import time

import pytest

from tests.sim.invariants import ViolationError
from tests.sim.store.planted import BUGS
from tests.sim.store.world import run_store_seed

LIMIT_S = 60.0


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found_over_the_real_store(bug: str):
    started = time.process_time()
    for seed in range(BUGS[bug].first_seed, 1_000_000):
        try:
            run_store_seed(seed, BUGS[bug](seed))
        except ViolationError:
            return
        assert time.process_time() - started < LIMIT_S, f"{seed} seeds did not find: {bug}"
