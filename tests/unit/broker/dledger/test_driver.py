"""The driver of a node, on the event loop and the disk of the simulation."""

from __future__ import annotations

import errno

from skyrocket.protocol.bodies.dledger import DLedgerEntry, HeartBeatRequest, LedgerMessage, PushEntryRequest, PushType
from skyrocket.protocol.ledger_push import decode_entry
from skyrocket.raft.ports import Request, Role
from tests.sim.store.node import StoreNode
from tests.sim.store.plan import StorePlan
from tests.sim.store.world import StoreWorld
from tests.support.stores.ledgers import a_ledger
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import START_MS, a_message


class QuietPlan(StorePlan):
    """Three nodes of ours, and no faults."""

    def __init__(self) -> None:
        super().__init__(0)
        self.size, self.kind, self.loose = 3, "strict", 0
        self.loss = self.repeat = self.late = 0.0
        self.patient_share = 1.0


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


def a_follower_of_five_entries() -> tuple[StoreWorld, StoreNode]:
    """Return a node whose disk is about to fail."""
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
    return world, node


def test_a_follower_that_cannot_cut_its_log_takes_no_part_and_stays_readable():
    _, node = a_follower_of_five_entries()
    assert node.store is not None
    node.disk.fail("sync", lasting=True)
    ask(node, HeartBeatRequest(), 2)
    push(node, PushType.TRUNCATE, entries_of(1, 5)[2:3], 2)
    ask(node, HeartBeatRequest(), 2)

    assert node.raft is not None
    assert node.raft.role is Role.CANDIDATE
    assert not node.raft.can_propose
    assert node.store.entry(2) is not None


def test_a_full_disk_while_the_log_is_cut_leaves_the_rest_readable_and_says_whether_a_start_is_needed():
    said = set()
    for nth in range(1, 5):
        _, node = a_follower_of_five_entries()
        assert node.store is not None
        assert node.raft is not None
        node.disk.fail("write", nth, errno.ENOSPC)
        ask(node, HeartBeatRequest(), 2)
        push(node, PushType.TRUNCATE, entries_of(1, 5)[2:3], 2)
        why = node.raft._core.storage_failure
        assert [decode_entry(bytes(entry), 0)[0].index for entry in node.store.entries(0)][:3] == [0, 1, 2]
        if why is not None:
            assert why.endswith("It goes on by itself when there is room." if node.store.stopped is None else "Start it again.")
            said.add(node.store.stopped is None)
    assert said == {True, False}


def test_a_follower_whose_disk_was_full_takes_part_again_as_after_a_start():
    world, node = a_follower_of_five_entries()
    assert node.store is not None
    node.disk.fail("write", 1, errno.ENOSPC)
    push(node, PushType.APPEND, entries_of(1, 7)[5:6], 1)
    assert node.raft is not None
    assert node.raft.role is Role.CANDIDATE
    assert node.store.end_index == 4
    assert world.run_until(world.now + 2_000, lambda: world.came_back == 1)
    assert node.incarnation == 1
    ask(node, HeartBeatRequest(), 2)
    push(node, PushType.COMPARE, entries_of(1, 7)[4:5], 2)
    push(node, PushType.APPEND, entries_of(1, 7)[5:], 2)
    assert node.store.end_index == 6


def test_a_leader_that_was_held_up_reads_what_others_have_said_before_it_judges_time():
    """An append or a flush right after a pause judged the time, too: the leader found itself alone and stepped down."""
    world = StoreWorld(0, QuietPlan())
    for node in world.nodes.values():
        node.start()
    world.run_until(10_000)
    (leader,) = [node for node in world.nodes.values() if node.raft is not None and node.raft.role is Role.LEADER]
    driver, store = leader._driver, leader.store
    assert driver is not None
    assert store is not None
    now_ms = driver._now_ms() + 2 * driver._config.timings.leader_silence_ms
    driver._now_ms = lambda: now_ms
    roles: list[Role] = []

    def go_on() -> None:
        store.append([a_message(body=b"m")], START_MS)
        driver._propose_turn()
        assert driver.node.end_index == store.end_index, "it was proposed"
        driver.on_flushed()
        for _ in range(3):
            roles.append(driver.node.role)
            driver._tick()

    leader.loop.turn(go_on)
    assert roles == [Role.LEADER, Role.LEADER, Role.CANDIDATE], "after the flush; after a late tick; when nothing has arrived"
