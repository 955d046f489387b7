"""Simulated DLedger groups under faults: every seed holds the invariants of `invariants.py`.

`SKYROCKET_SIM_SEED=n` runs one seed, with the trace of what happened when it fails. `make sim SEEDS=10000` runs more.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.plan import SEEDS_IN_CI
from tests.sim.world import run_seed

PARTS = 10
CHOSEN = os.environ.get("SKYROCKET_SIM_SEED")


@pytest.mark.parametrize("part", [0] if CHOSEN else range(PARTS))
def test_invariants_hold(part: int):
    if CHOSEN:
        run_seed(int(CHOSEN), trace=True)
        return
    for seed in range(part, SEEDS_IN_CI, PARTS):
        run_seed(seed)
