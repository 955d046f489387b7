"""The simulation finds bugs that are planted in the nodes, each within a minute."""

from __future__ import annotations

import time

import pytest

from tests.sim.invariants import ViolationError
from tests.sim.planted import BUGS
from tests.sim.world import run_seed

LIMIT_S = 60.0


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug: str):
    started = time.process_time()
    for seed in range(BUGS[bug].first_seed, 1_000_000):
        try:
            run_seed(seed, BUGS[bug](seed))
        except ViolationError:
            return
        assert time.process_time() - started < LIMIT_S, f"{seed} seeds did not find: {bug}"
