"""What one seed chooses: the size of the group, its nodes, its network, its faults; and bugs that a test plants."""

from __future__ import annotations

import random

from skyrocket.raft.node import RaftNode
from skyrocket.raft.ports import Reply, Send, SendEntries

SEEDS_IN_CI = 300

FAULTS = {
    "kill": 3,
    "power cut": 3,
    "start": 5,
    "split": 2,
    "isolate leader": 3,
    "isolate only the leader": 3,
    "deafen": 1,
    "silence": 1,
    "ring": 1,
    "one-way ring": 1,
    "cut link": 1,
    "heal": 4,
    "slow disk": 1,
    "fast disk": 2,
    "wipe": 2,
    "transfer": 1,
    "kill leader": 2,
    "power cut of all": 1,
}


STYLES = {
    "any": set(FAULTS),
    "leaders": {"start", "isolate leader", "heal", "kill leader", "split", "power cut"},
    "rotation": {"start", "isolate only the leader", "kill leader", "heal"},
    "disks": {"wipe", "start", "kill", "power cut", "isolate leader", "isolate only the leader", "heal", "kill leader"},
    "power": {"power cut", "start", "slow disk", "power cut of all", "heal", "isolate leader"},
}


class Plan:
    """The choices of a seed, drawn from its random source.

    strict  every node is ours: all invariants hold, whatever happens.
    mixed   some nodes answer before they sync, as Apache's do, and vote as Apache's do. Their power is never cut, so all
            invariants hold.
    weak    such nodes lose power, too, and commit entries of former terms by counting. What they acknowledged can be lost, two
            of them can lead a term. What must still hold: no node of ours takes back what it has shown to consumers.
    """

    def __init__(self, seed: int, style: str | None = None) -> None:
        rng = random.Random(seed)
        self.size = 5 if rng.random() < 0.3 else 3
        kind = rng.random()
        self.kind = "strict" if kind < 0.65 else "mixed" if kind < 0.9 else "weak"
        self.loose = 0 if self.kind == "strict" else rng.randint(1, self.size // 2 + (self.kind == "weak"))
        self.loss = rng.choice([0.0, 0.0, 0.02, 0.1, 0.3])
        self.repeat = rng.choice([0.0, 0.05, 0.2])
        self.late = rng.choice([0.0, 0.02, 0.1])
        self.push_entries_max = rng.choice([1, 1, 3, 20])
        self.on_wire = rng.random() < 0.1
        self.faulty_ms = rng.choice([3_000, 6_000])
        self.fault_every_ms = rng.choice([150, 400, 900])
        self.sync_ms = rng.choice([2, 6, 6, 40])
        self.style = style or rng.choice(list(STYLES))
        self.weights = {name: FAULTS[name] * rng.choice([0, 1, 1, 2]) for name in FAULTS if name in STYLES[self.style]}
        self.weights["start"] = 5
        self.send_every_ms = rng.choice([25, 25, 100, 400])
        self.weights["heal"] = max(1, self.weights["heal"])

    @property
    def weak(self) -> bool:
        return self.kind == "weak"

    # Bugs: none. A subclass plants one -------------------------------------------------------------------------------

    dispatches_early = False
    writes_marker = True

    def plant(self, raft: RaftNode) -> None:
        """Change a node before it starts."""

    def may_leave_early(self, effect: Send | SendEntries | Reply) -> bool:
        """Whether a message leaves before what it tells is durable."""
        return False
