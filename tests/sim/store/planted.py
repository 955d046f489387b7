"""Bugs of the store and of what is around it, which the store level must find. Those of elections come from the level below."""

from __future__ import annotations

from typing import Any

from skyrocket.broker.dledger.term_saver import TermSaver
from skyrocket.raft.node import RaftNode
from skyrocket.raft.ports import Persist
from skyrocket.store.horizon import MAJORITY, Horizon
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.sync_jobs import FlushJob
from tests.sim.planted import CountingReplication, GenerousElection
from tests.sim.store.plan import MACHINE_FAULTS, StorePlan


class StrictStorePlan(StorePlan):
    """Every node is ours, so that only the planted bug can break an invariant."""

    likely_style: str | None = None
    """The faults that bring the bug out soonest."""
    first_seed = 0
    """A little before the first seed that finds the bug. Where other code makes that another one, the search takes longer."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, self.likely_style)
        self.kind, self.loose, self.on_wire = "strict", 0, False


class HastyStore(LedgerStore):
    """Says that entries are on disk when they are written."""

    @property
    def durable_index(self) -> int:
        return self.end_index

    @durable_index.setter
    def durable_index(self, index: int) -> None:
        pass


class PowerPlan(StrictStorePlan):
    """Power fails at all nodes, while slow disks sync what a busy producer has sent."""

    likely_style = "power"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sync_ms, self.send_every_ms = 40, 25
        self.weights["power cut of all"] = self.weights["power cut"] = 5


class AcknowledgeBeforeSync(PowerPlan):
    store_type = HastyStore
    first_seed = 15


class LateCountingStore(LedgerStore):
    """Counts everything as synced that is there when a flush ends, not when it began."""

    def finish_flush(self, job: FlushJob, error: OSError | None = None) -> None:
        super().finish_flush(job, error)
        self.durable_index = self.end_index


class CountLateWrites(PowerPlan):
    store_type = LateCountingStore
    first_seed = 20


class TrustingStore(LedgerStore):
    """Does not sync what it finds when it is opened: a killed process leaves pages that only the system has."""

    def _make_log(self, background: Any) -> Any:
        log = super()._make_log(background)
        log.sync = lambda _start, _stop: None  # type: ignore[method-assign]
        return log


class TrustThePageCache(PowerPlan):
    """Nodes are killed while they write; soon after they are back, power fails everywhere."""

    store_type = TrustingStore
    first_seed = 38

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.fault_every_ms = 60
        self.weights |= {"kill": 10, "kill leader": 10, "start": 20, "power cut of all": 10}


class HastyHorizon(Horizon):
    def _advance(self) -> int:
        self.confirmed = self.appended
        return self.confirmed


class EarlyStore(LedgerStore):
    """Dispatches messages when they are appended."""

    def _start_horizon(self, visible_end: int) -> Horizon:
        horizon = HastyHorizon(visible_end, (MAJORITY,))
        horizon.append(self.log.end)
        return horizon


class DispatchBeforeCommit(StrictStorePlan):
    store_type = EarlyStore


class HastySaver(TermSaver):
    """Says that term and vote are on disk before they are."""

    def save(self, effect: Persist) -> None:
        super().save(effect)
        self._on_saved(effect.token)


class VoteBeforeSync(PowerPlan):
    saver_type = HastySaver
    first_seed = 62


class VoteTwice(StrictStorePlan):
    def plant(self, raft: RaftNode) -> None:
        raft._election.__class__ = GenerousElection


class CommitOldTerm(StrictStorePlan):
    writes_marker = False
    likely_style = "rotation"
    first_seed = 1_160  # about one seed in 80 finds it; of the first 270, none does

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.size, self.fault_every_ms, self.faulty_ms, self.send_every_ms = 3, 250, 6_000, 50 + seed % 3 * 50
        self.weights |= dict.fromkeys(MACHINE_FAULTS, 0)

    def plant(self, raft: RaftNode) -> None:
        raft._replication.__class__ = CountingReplication


class KeepAnswers(StrictStorePlan):
    """A node that does not lead any more keeps the answers that wait, and sends them when the horizon passes their places."""

    fails_answers = False


BUGS = {
    "acknowledge before sync": AcknowledgeBeforeSync,
    "count what was written during a sync": CountLateWrites,
    "trust the page cache of a killed process": TrustThePageCache,
    "commit an old term": CommitOldTerm,
    "vote twice": VoteTwice,
    "vote before sync": VoteBeforeSync,
    "dispatch before commit": DispatchBeforeCommit,
    "answer after the leadership is lost": KeepAnswers,
}
