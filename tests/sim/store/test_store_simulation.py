"""Simulated groups of nodes with the broker's own store, flusher and driver: every seed holds the invariants.

`SKYROCKET_SIM_STORE_SEED=n` runs one seed, with the trace of what happened when it fails. `make sim SEEDS=10000` runs 1,000.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.store.plan import SEEDS_IN_CI
from tests.sim.store.world import SEED_VARIABLE, run_store_seed

PARTS = 10
CHOSEN = os.environ.get(SEED_VARIABLE)


@pytest.mark.parametrize("part", [0] if CHOSEN else range(PARTS))
def test_invariants_hold_over_the_real_store(part: int):
    if CHOSEN:
        run_store_seed(int(CHOSEN), trace=True)
        return
    for seed in range(part, SEEDS_IN_CI, PARTS):
        run_store_seed(seed)


@pytest.mark.parametrize("seed", [698, 862])
def test_a_node_that_is_asked_to_stop_at_a_bad_moment_comes_back(seed: int):
    """With 698 its disk is full when it closes its store; with 862 it is frozen, and stops after everything else is healed."""
    run_store_seed(seed, trace=True)
