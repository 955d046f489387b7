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
