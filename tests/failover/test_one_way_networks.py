"""Nodes on hosts of their own (network namespaces) that hear each other in one direction only. Clients reach all of them.

    the leader hears nobody      it steps down; the others elect one that hears and is heard
    nobody hears the leader      the others elect; the old leader acknowledges nothing, and follows when it can answer
    a ring                       each hears one neighbour: no two can agree, so nothing is acknowledged until it heals
    two that lose each other     both reach the third: the group goes on

Everything acknowledged is stored in order, nothing that was refused is, and the ledgers become equal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.failover.limits import ROUNDS
from tests.support import failover_report as report
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.network_namespaces import Network
from tests.support.processes.numbered_load import NumberedLoad, check_acknowledged, check_ledgers
from tests.support.processes.skyrocket_process import SkyrocketNameserver
from tests.support.waiting import wait_until

QUEUES = 4
SEND_MS = 1_000  # how long a producer waits for a leader that does not answer
IN_FLIGHT_S = 0.3  # until answers have come that had left before
RING_S = 2.0  # how long a ring lasts: many times as long as an election takes

Lost = Callable[[str, list[str]], list[tuple[str, str]]]  # of the leader and its followers: who sends in vain to whom

WITHOUT_THE_LEADER: dict[str, Lost] = {
    "the leader hears nobody": lambda leader, others: [(other, leader) for other in others],
    "nobody hears the leader": lambda leader, others: [(leader, other) for other in others],
}


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network("n0", "n1", "n2", "names", "client") as made, made.entered("client"):
        yield made


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[DLedgerGroup]:
    home, settings = tmp_path_factory.mktemp("one-way"), {"bindAddress": network.address("names")}
    with (
        SkyrocketNameserver(home / "names", settings, network.namespace("names")) as names,
        DLedgerGroup(home, names.nameserver, settings={"defaultTopicQueueNums": QUEUES}, network=network) as started,
    ):
        yield started


@pytest.fixture
def load(group: DLedgerGroup, request: pytest.FixtureRequest) -> Iterator[NumberedLoad]:
    """Producers of a topic that belongs to the test."""
    group.wait_for_leader()
    topic = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    started = NumberedLoad(group.nameserver, topic, SEND_MS, pause_s=0.002)
    try:
        started.wait_for(50, group)
        yield started
    finally:
        started.stop()


def check(group: DLedgerGroup, load: NumberedLoad) -> None:
    load.stop()
    check_acknowledged(load.acknowledged, group, load.topic, QUEUES)
    check_ledgers(group)


def others_of(group: DLedgerGroup, leader: str) -> list[str]:
    return [node for node in group.kinds if node != leader]


@pytest.mark.parametrize("name", WITHOUT_THE_LEADER)
def test_a_leader_that_is_heard_or_hears_in_vain_is_replaced(
    network: Network, group: DLedgerGroup, load: NumberedLoad, name: str
):
    took: list[float] = []
    for _ in range(ROUNDS):
        leader = group.wait_for_leader()
        with network.one_way(WITHOUT_THE_LEADER[name](leader, others_of(group, leader))):
            began = time.monotonic()
            term = group.term_of(group.wait_for_new_leader(leader))
            load.wait_for_more(50, group)
            took.append(time.monotonic() - began)
            wait_until(lambda leader=leader: group.leader_according_to(leader) != leader, group.tails)
        wait_until(lambda leader=leader, term=term: group.term_of(leader) >= term, group.tails)
        load.wait_for_more(50, group)
    check(group, load)
    report.add(name, f"{ROUNDS} times; 50 messages were acknowledged again {max(took):.2f} s later at most; nothing lost")


def test_in_a_ring_where_each_hears_one_neighbour_nothing_is_acknowledged_until_it_heals(network, group, load):
    for _ in range(ROUNDS):
        leader = group.wait_for_leader()
        first, second = others_of(group, leader)
        with network.one_way([(leader, second), (second, first), (first, leader)]):
            wait_until(lambda: leader_of(group) is None, group.tails)
            time.sleep(IN_FLIGHT_S)
            count = len(load.acknowledged)
            time.sleep(RING_S)
            assert len(load.acknowledged) == count, "acknowledged without a majority"
        load.wait_for_more(50, group)
    check(group, load)
    report.add("a ring of three", f"{ROUNDS} times for {RING_S:.0f} s: no leader, no acknowledgement; healed, nothing lost")


def leader_of(group: DLedgerGroup) -> str | None:
    """The node that says that it leads."""
    return next((node for node in group.kinds if group.leader_according_to(node) == node), None)


def test_two_nodes_that_lose_each_other_do_not_stop_a_group_whose_third_reaches_both(network, group, load):
    for _ in range(ROUNDS):
        leader = group.wait_for_leader()
        first = others_of(group, leader)[0]
        with network.one_way([(leader, first), (first, leader)]):
            load.wait_for_more(200, group)
        load.wait_for_more(50, group)
    check(group, load)
    report.add("a leader and a follower lose each other", f"{ROUNDS} times: the group goes on, nothing lost")
