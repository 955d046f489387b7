"""Simulated DLedger groups under faults: every seed holds the invariants of `invariants.py`.

`SKYROCKET_SIM_SEED=n` runs one seed, with the trace of what happened when it fails. `make sim SEEDS=10000` runs more.
"""

from __future__ import annotations

import os

import pytest

from tests.sim.plan import Plan
from tests.sim.world import World, run_seed

SEEDS = 300
PARTS = 10
CHOSEN = os.environ.get("SKYROCKET_SIM_SEED")


@pytest.mark.parametrize("part", [0] if CHOSEN else range(PARTS))
def test_invariants_hold(part: int):
    if CHOSEN:
        run_seed(int(CHOSEN), trace=True)
        return
    for seed in range(part, SEEDS, PARTS):
        run_seed(seed)


def test_seeds_cover_each_kind_of_group_and_every_fault():
    plans = [Plan(seed) for seed in range(SEEDS)]
    assert {(plan.kind, plan.size) for plan in plans} == {(kind, size) for kind in ("strict", "mixed", "weak") for size in (3, 5)}
    assert {plan.loss for plan in plans} >= {0.0, 0.3}
    assert all(any(plan.weights.get(fault) for plan in plans) for fault in plans[0].weights)
    assert any(plan.on_wire for plan in plans)


def test_a_seed_repeats_exactly():
    worlds = [run_seed(3, trace=True) for _ in range(2)]
    assert worlds[0].trace == worlds[1].trace
    assert worlds[0].trace
    assert [entry.body for entry in worlds[0].checker.committed] == [entry.body for entry in worlds[1].checker.committed]


def test_a_failing_seed_names_itself_and_shows_what_happened(monkeypatch: pytest.MonkeyPatch):
    def fail(world: World) -> None:
        world.note("the last thing")
        raise AssertionError("broken")

    monkeypatch.setattr(World, "run", fail)
    with pytest.raises(AssertionError, match=r"seed 7 .*broken.*SKYROCKET_SIM_SEED=7 make sim\n.*the last thing"):
        run_seed(7, trace=True)


def test_messages_are_acknowledged_while_faults_happen():
    acknowledged = [len(run_seed(seed).checker.acknowledged) for seed in range(20)]
    assert sum(count > 20 for count in acknowledged) >= 15
