"""Bugs that the simulation must find. Each is a plan that changes the nodes, or what the shell around them does."""

from __future__ import annotations

from skyrocket.protocol.bodies.dledger import VoteRequest, VoteResult
from skyrocket.raft.election import Election
from skyrocket.raft.node import RaftNode
from skyrocket.raft.ports import Reply, Send, SendEntries
from skyrocket.raft.replication import LogReplication
from tests.sim.plan import Plan


class StrictPlan(Plan):
    """Every node is ours, so that only the planted bug can break an invariant."""

    likely_style: str | None = None
    """The faults that bring the bug out soonest."""
    first_seed = 0
    """A little before the first seed that finds the bug. Where other code makes that another one, the search takes longer."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, self.likely_style)
        self.kind, self.loose, self.on_wire = "strict", 0, False


class AcknowledgeBeforeSync(StrictPlan):
    """A follower acknowledges what is not on its disk yet."""

    likely_style = "power"

    def may_leave_early(self, effect: Send | SendEntries | Reply) -> bool:
        return effect.after.log is not None


class CountingReplication(LogReplication):
    """Commits entries of former terms by counting their copies."""

    def may_commit(self, index: int) -> bool:
        return True


class CommitOldTerm(StrictPlan):
    """A new leader commits entries of former terms without one of its own."""

    writes_marker = False
    likely_style = "rotation"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.size, self.fault_every_ms, self.faulty_ms, self.send_every_ms = 3, 250, 6_000, 50 + seed % 3 * 50

    def plant(self, raft: RaftNode) -> None:
        raft._replication.__class__ = CountingReplication


class GenerousElection(Election):
    """Forgets for whom it has voted."""

    def _decide(self, request: VoteRequest) -> tuple[VoteResult, int]:
        if request.term == self._core.term and request.leader_id in self._core.config.others:
            self._core.vote = None
        return super()._decide(request)


class VoteTwice(StrictPlan):
    """A node votes for two candidates in one term."""

    def plant(self, raft: RaftNode) -> None:
        raft._election.__class__ = GenerousElection


class DispatchBeforeCommit(StrictPlan):
    """A node shows entries to consumers when it has written them."""

    dispatches_early = True


class ForgetVote(StrictPlan):
    """Votes and terms leave before they are on disk."""

    likely_style = "power"
    first_seed = 1_380

    def may_leave_early(self, effect: Send | SendEntries | Reply) -> bool:
        return effect.after.log is None


BUGS = {
    "acknowledge before sync": AcknowledgeBeforeSync,
    "commit an old term": CommitOldTerm,
    "vote twice": VoteTwice,
    "dispatch before commit": DispatchBeforeCommit,
    "vote before sync": ForgetVote,
}
