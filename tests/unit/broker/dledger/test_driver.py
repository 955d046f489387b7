"""The driver of a node, on the event loop and the disk of the simulation."""

from __future__ import annotations

from skyrocket.protocol.bodies.dledger import DLedgerEntry, HeartBeatRequest, LedgerMessage, PushEntryRequest, PushType
from skyrocket.protocol.ledger_push import decode_entry
from skyrocket.raft.ports import Request, Role
from tests.sim.store.node import StoreNode
from tests.sim.store.plan import StorePlan
from tests.sim.store.world import StoreWorld
from tests.support.ledgers import a_ledger
from tests.support.simulated_disk import SimulatedDisk
from tests.support.store_messages import START_MS, a_message


class QuietPlan(StorePlan):
    """Three nodes of ours, and no faults."""

    def __init__(self) -> None:
        super().__init__(0)
        self.size, self.kind, self.loose = 3, "strict", 0
        self.loss = self.repeat = self.late = 0.0


def entries_of(term: int, count: int) -> list[DLedgerEntry]:
    """Return entries as a leader of a term has them."""
    store = a_ledger("elsewhere", files=SimulatedDisk())
    store.set_term(term)
    store.append([a_message(body=b"%d" % number) for number in range(count)], START_MS)
    return [decode_entry(bytes(entry), 0)[0] for entry in store.entries(0)]


def ask(node: StoreNode, message: LedgerMessage, term: int) -> None:
    """A leader n1 speaks to the node."""
    message.group, message.remote_id, message.local_id, message.leader_id, message.term = "g", "n0", "n1", "n1", term
    node.feed(Request(1, message))  # type: ignore[arg-type]


def push(node: StoreNode, kind: PushType, entries: list[DLedgerEntry], term: int) -> None:
    request = PushEntryRequest(type=kind, commit_index=-1)
    request.carry(entries, batch=len(entries) > 1)
    ask(node, request, term)


def test_a_follower_that_cannot_cut_its_log_takes_no_part_and_stays_readable():
    world = StoreWorld(0, QuietPlan())
    node = world.nodes["n0"]
    node.start()
    ask(node, HeartBeatRequest(), 1)
    push(node, PushType.TRUNCATE, entries_of(1, 5)[:1], 1)
    push(node, PushType.APPEND, entries_of(1, 5)[1:], 1)
    world.run_until(100)
    assert node.store is not None
    assert node.store.end_index == 4

    world.expect_failure(node)
    node.disk.fail("sync", lasting=True)
    ask(node, HeartBeatRequest(), 2)
    push(node, PushType.TRUNCATE, entries_of(1, 5)[2:3], 2)
    ask(node, HeartBeatRequest(), 2)

    assert node.raft is not None
    assert node.raft.role is Role.CANDIDATE
    assert not node.raft.can_propose
    assert node.store.entry(2) is not None
