"""How long a group of ours acknowledges nothing after its leader was killed."""

from __future__ import annotations

import statistics

from skyrocket.raft.ports import Role
from tests.sim.plan import Plan
from tests.sim.world import World


class QuietPlan(Plan):
    """Three nodes of ours, a good network, no faults."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.size, self.kind, self.loose = 3, "strict", 0
        self.loss = self.repeat = self.late = 0.0
        self.sync_ms, self.send_every_ms = 6, 25


def fail_over_ms(seed: int) -> float:
    """Kill the leader of a quiet group. Return the time until the next message is acknowledged."""
    world = World(seed, QuietPlan(seed))
    for node in world.nodes.values():
        world.at(0, node.start)
    for producer in world._producers:
        world.at(0, producer.send)
    world.run_until(2_000 + seed * 7)
    (leader,) = [node for node in world.nodes.values() if node.raft is not None and node.raft.role is Role.LEADER]
    world.crash(leader, power=False)
    killed, before = world.now, len(world.checker.acknowledged)
    assert before > 50
    assert world.run_until(killed + 5_000, lambda: len(world.checker.acknowledged) > before)
    return world.now - killed


def test_median_fail_over_is_under_a_second():
    times = sorted(fail_over_ms(seed) for seed in range(40))
    assert statistics.median(times) < 1_000, times
    assert times[-1] < 3_000, times
