"""Seeds cover what they should, repeat exactly, and name themselves when they fail."""

from __future__ import annotations

import pytest

from tests.sim.plan import FAULTS, SEEDS_IN_CI, STYLES, Plan
from tests.sim.world import World, run_seed


def test_seeds_cover_each_kind_of_group_and_every_fault():
    plans = [Plan(seed) for seed in range(SEEDS_IN_CI)]
    assert {(plan.kind, plan.size) for plan in plans} == {(kind, size) for kind in ("strict", "mixed", "weak") for size in (3, 5)}
    assert {plan.loss for plan in plans} >= {0.0, 0.3}
    assert {plan.style for plan in plans} == set(STYLES)
    assert {fault for plan in plans for fault, weight in plan.weights.items() if weight} == set(FAULTS)
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
