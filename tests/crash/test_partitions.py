"""Brokers on hosts of their own (network namespaces) that lose each other, and a leader that is stopped for a while.

Everything acknowledged is consumed, in order per queue, and the ledgers become equal. A leader that has lost its group
acknowledges nothing, neither while it is alone nor when it is back. SKYROCKET_PARTITIONS sets how often each of it happens (1).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import pytest

from skyrocket.protocol.command import encode_command
from skyrocket.protocol.responses import ResponseCode
from tests.support.processes.dledger_group import DLedgerGroup
from tests.support.processes.load import Wire, pull_request, records, send_request
from tests.support.processes.network_namespaces import Network
from tests.support.processes.numbered_load import NumberedLoad, check_acknowledged, check_ledgers
from tests.support.processes.replication import are_equal, explain
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("SKYROCKET_PARTITIONS", "1"))
QUEUES = 4
LATE = 20  # messages for a leader that has lost its group, each time that it is asked
SEND_MS = 1_000  # how long a producer waits for a leader that does not answer


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """Hosts for a group, a pair, a nameserver and clients. The tests themselves are on the clients' host."""
    with Network("n0", "n1", "n2", "master", "slave", "names", "client") as made, made.entered("client"):
        yield made


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Iterator[str]:
    settings = {"bindAddress": network.address("names")}
    with SkyrocketNameserver(tmp_path_factory.mktemp("names"), settings, network.namespace("names")) as started:
        yield started.nameserver


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, nameserver: str, network: Network) -> Iterator[DLedgerGroup]:
    settings = {"defaultTopicQueueNums": QUEUES}
    with DLedgerGroup(tmp_path_factory.mktemp("group"), nameserver, settings=settings, network=network) as started:
        yield started


@pytest.fixture
def load(group: DLedgerGroup, nameserver: str, request: pytest.FixtureRequest) -> Iterator[NumberedLoad]:
    """Producers of a topic that belongs to the test."""
    group.wait_for_leader()
    started = NumberedLoad(nameserver, request.node.name, SEND_MS, pause_s=0.002)
    try:
        started.wait_for(50, group)
        yield started
    finally:
        started.stop()


class LateSends:
    """A connection to a leader, over which messages are sent that it must not acknowledge."""

    def __init__(self, address: str, topic: str) -> None:
        self._wire = Wire(address)
        self._topic = topic
        self.count = 0

    def is_led(self) -> bool:
        """Whether the node takes a message."""
        return self._wire.ask(send_request(self._topic, b"early")).code == ResponseCode.SUCCESS

    def send(self) -> None:
        """Send some messages, and wait for no answer."""
        for _ in range(LATE):
            self.count += 1
            body, opaque = b"late/%d" % self.count, 1_000 + self.count
            request = send_request(self._topic, body, self.count % QUEUES, opaque)
            self._wire.tell(encode_command(request))

    def check_refused(self) -> None:
        """Every message is answered, and none of them is acknowledged."""
        with self._wire as wire:
            codes = [wire.answer().code for _ in range(self.count)]
        assert ResponseCode.SUCCESS not in codes, f"a leader without a group acknowledges messages: {codes}"


def find_leader(group: DLedgerGroup, network: Network, topic: str) -> tuple[str, LateSends]:
    """Find the leader, and connect to it from its own host: the client is on its side of a cut."""
    found: list[tuple[str, LateSends]] = []

    def is_found() -> bool:  # on a busy machine, another node may lead a moment later
        leader = group.wait_for_leader()
        with network.entered(leader):
            found.append((leader, LateSends(group.address(leader), topic)))
        return found[-1][1].is_led()

    wait_until(is_found, group.tails)
    return found[-1]


def test_a_leader_that_is_cut_off_acknowledges_nothing_and_follows_when_it_is_back(network, group, load):
    chance = random.Random(18)
    for _ in range(ROUNDS):
        leader, late = find_leader(group, network, load.topic)
        time.sleep(chance.random() / 2)
        network.cut(leader)
        try:
            late.send()  # it believes that it leads
            term = group.term_of(group.wait_for_new_leader(leader))
            load.wait_for_more(50, group)
            with network.entered(leader):
                wait_until(lambda leader=leader: group.leader_according_to(leader) != leader, group.tails, 60)
            late.send()  # it knows that it leads no more
        finally:
            network.join(leader)
        late.check_refused()
        wait_until(lambda leader=leader, term=term: group.term_of(leader) >= term, group.tails, 60)
        load.wait_for_more(50, group)
    load.stop()
    check(group, load)


def test_a_leader_that_was_stopped_acknowledges_nothing_of_what_was_sent_to_it_meanwhile(network, group, load):
    for _ in range(ROUNDS):
        leader, late = find_leader(group, network, load.topic)
        stopped = group.running[leader].process
        stopped.send_signal(signal.SIGSTOP)
        try:
            term = group.term_of(group.wait_for_new_leader(leader))
            late.send()
            load.wait_for_more(50, group)
        finally:
            stopped.send_signal(signal.SIGCONT)
        late.check_refused()
        wait_until(lambda leader=leader, term=term: group.term_of(leader) >= term, group.tails, 60)
        load.wait_for_more(50, group)
    load.stop()
    check(group, load)


def check(group: DLedgerGroup, load: NumberedLoad) -> None:
    """Everything acknowledged is stored in order, nothing of what was refused is, and the ledgers are equal."""
    stored = check_acknowledged(load.acknowledged, group, load.topic, QUEUES)
    late = [body for bodies in stored.values() for body in bodies if body.startswith(b"late/")]
    assert late == [], "what a leader took after it had lost its group is consumed"
    check_ledgers(group)


def test_a_sync_master_reports_that_its_slave_is_cut_off_and_the_slave_catches_up(tmp_path, network, nameserver):
    def start(host: str, settings: dict[str, object]) -> SkyrocketBroker:
        own = {"brokerName": "pair", "bindAddress": network.address(host), "slaveTimeout": 300, **settings}
        return SkyrocketBroker(tmp_path / host, nameserver, own, namespace=network.namespace(host))

    with start("master", {"brokerRole": "SYNC_MASTER", "brokerId": 0}) as master:
        host, _, port = master.address.partition(":")
        slave_settings = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": f"{host}:{int(port) + 1}"}
        with start("slave", slave_settings) as slave, Wire(master.address) as wire:

            def send(body: bytes) -> int:
                return wire.ask(send_request("Pair", body)).code

            def is_equal() -> bool:
                return are_equal(master.store, slave.store)

            wait_until(lambda: send(b"whole") == ResponseCode.SUCCESS, master.log_tail)
            wait_until(is_equal, lambda: explain(master.store, slave.store))
            for number in range(ROUNDS):
                network.cut("slave")
                try:
                    assert send(b"cut %d" % number) == ResponseCode.FLUSH_SLAVE_TIMEOUT
                    assert not is_equal()
                finally:
                    network.join("slave")
                wait_until(is_equal, lambda: explain(master.store, slave.store))
                assert send(b"healed %d" % number) == ResponseCode.SUCCESS
            bodies = [record.body for record in records(wire.ask(pull_request("Pair", 0)))]
            assert b"cut 0" in bodies
            assert b"healed 0" in bodies
