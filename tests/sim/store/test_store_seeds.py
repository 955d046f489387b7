"""Seeds of the store level cover what they should, and repeat exactly, also in another process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.sim.plan import FAULTS
from tests.sim.store.plan import MACHINE_FAULTS, SEEDS_IN_CI, StorePlan
from tests.sim.store.world import SEED_VARIABLE, run_store_seed


def test_seeds_cover_each_kind_of_group_and_every_fault():
    plans = [StorePlan(seed) for seed in range(SEEDS_IN_CI)]
    assert {(plan.kind, plan.size) for plan in plans} == {(kind, size) for kind in ("strict", "mixed") for size in (3, 5)}
    assert {plan.loss for plan in plans} >= {0.0, 0.3}
    assert {fault for plan in plans for fault, weight in plan.weights.items() if weight} == set(FAULTS) | set(MACHINE_FAULTS)
    assert {plan.batch_push for plan in plans} == {True, False}


def test_a_seed_repeats_exactly_in_another_process():
    """Texts have other hashes there, so that nothing may depend on the order of a set."""
    world = run_store_seed(8, trace=True)
    assert world.trace
    for hashes in ("1", "2"):
        environment = os.environ | {SEED_VARIABLE: "8", "PYTHONHASHSEED": hashes}
        replayed = subprocess.run(
            [sys.executable, "-m", "tests.sim"], env=environment, capture_output=True, text=True, check=True
        )
        assert replayed.stdout.splitlines()[:-1] == world.trace
        assert replayed.stdout.splitlines()[-1].startswith("seed 8 ")


def test_messages_are_acknowledged_and_nodes_recover_while_faults_happen():
    worlds = [run_store_seed(seed) for seed in range(20)]
    assert sum(len(world.checker.acknowledged) > 20 for world in worlds) >= 15
    assert sum(node.incarnation - 1 for world in worlds for node in world.nodes.values()) > 60


class FullDiskPlan(StorePlan):
    """Writes fail, and leaders change. Nothing else happens, so that a node that comes back does it by itself."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "any")
        self.kind, self.loose = "strict", 0
        self.weights = {"write fails": 20, "start": 8, "heal": 4, "isolate leader": 3, "transfer": 1}


def test_nodes_whose_disk_was_full_take_part_again_without_a_start():
    worlds = [run_store_seed(seed, FullDiskPlan(seed)) for seed in range(8)]
    assert sum(world.came_back for world in worlds) >= 5
