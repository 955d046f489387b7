"""What one seed of the store level chooses. Faults of the machine come to those of `tests/sim/plan.py`."""

from __future__ import annotations

import random

from skyrocket.broker.dledger.term_saver import TermSaver
from skyrocket.raft.outbox import Outbox
from skyrocket.store.ledger.ledger_store import LedgerStore
from tests.sim.plan import Plan

SEEDS_IN_CI = 120

MACHINE_FAULTS = {
    "power cut while writing": 3,
    "kill while writing": 1,
    "freeze": 1,
    "stop": 2,
    "sync fails": 1,
    "write fails": 1,
}


class StorePlan(Plan):
    """The choices of a seed. No group is weak: a node whose files Apache would have written is not simulated here."""

    store_type: type[LedgerStore] = LedgerStore
    saver_type: type[TermSaver] = TermSaver
    fails_answers = True
    patient_share = 0.7  # of the full disks: nobody starts the node again

    def __init__(self, seed: int, style: str | None = None) -> None:
        super().__init__(seed, style)
        rng = random.Random(seed ^ 0x570E)
        if self.kind == "weak":
            self.kind, self.loose = "mixed", min(self.loose, self.size // 2)
        self.faulty_ms = rng.choice([1_500, 3_000])
        self.fault_every_ms = rng.choice([150, 300, 600])
        self.batch_push = rng.random() < 0.5
        self.weights["start"] = 8
        self.weights |= {name: weight * rng.choice([0, 1, 2]) for name, weight in MACHINE_FAULTS.items()}

    def make_outbox(self) -> Outbox:
        return Outbox()
