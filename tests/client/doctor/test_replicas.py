"""Replicas that are behind or gone: a slave and a node of a DLedger group, both stopped and killed as processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Message, Producer
from tests.client.doctor.scenes import examine, finding_of, rules_of
from tests.support.apache.cluster import ApacheCluster
from tests.support.processes.dledger_group import BROKER, DLedgerGroup
from tests.support.processes.replica_pair import ReplicaPair
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver, SkyrocketProcess


@pytest.fixture
def nameserver(tmp_path: Path) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path / "names") as names:
        yield names.nameserver


def stop(process: SkyrocketProcess) -> None:
    """Let a process stand still, as a machine without CPU does."""
    assert process.process is not None
    process.process.send_signal(signal.SIGSTOP)


async def send(nameserver: str, count: int) -> None:
    async with Producer(nameserver) as producer:
        for _ in range(count):
            await producer.send(Message("orders", b"m"))


async def test_a_slave_that_copies_nothing_and_one_that_is_gone(nameserver: str, tmp_path: Path):
    both = {"brokerName": "pair", "brokerIP2": "127.0.0.1"}
    sync = {"brokerRole": "SYNC_MASTER", "slaveTimeout": 200}
    with (
        SkyrocketBroker(tmp_path / "master", nameserver, {**both, **sync}) as master,
        SkyrocketBroker(tmp_path / "slave", nameserver, {**both, "brokerRole": "SLAVE", "brokerId": 1}) as slave,
    ):
        await send(nameserver, 1)
        await finding_free(nameserver)
        stop(slave)
        await send(nameserver, 3)
        behind = await finding_of(nameserver, "slave-behind", topic="orders", every_s=0.3)
        slave.kill()
        missing = await finding_of(nameserver, "slave-missing", topic="orders")
    assert behind.about == f"broker pair ({master.address})"
    assert "it confirmed nothing between the two looks" in behind.evidence
    assert missing.evidence.startswith("0 slaves of 1 connected")


@pytest.mark.interop
async def test_apaches_master_tells_of_a_slave_that_copies_nothing(tmp_path: Path):
    with ApacheCluster(tmp_path) as cluster, ReplicaPair(tmp_path / "pair", cluster, "apache", "ours") as pair:
        await send(pair.nameserver, 1)
        await finding_free(pair.nameserver)
        slave = pair._running["slave"]
        assert isinstance(slave, SkyrocketProcess)
        stop(slave)
        await send(pair.nameserver, 3)
        behind = await finding_of(pair.nameserver, "slave-behind", topic="orders", every_s=0.3)
    assert behind.about == f"broker pair ({pair.address('master')})"
    assert "it confirmed nothing between the two looks" in behind.evidence


async def finding_free(nameserver: str) -> None:
    """Wait until the replicas have everything, and see that the doctor then finds nothing."""
    rules: list[str] = ["?"]
    for _ in range(600):
        rules = rules_of(await examine(nameserver, topic="orders", every_s=0.05))
        if not rules:
            return
    raise AssertionError(rules)


async def test_a_node_of_a_group_that_is_behind_and_one_that_is_gone(nameserver: str, tmp_path: Path):
    with DLedgerGroup(tmp_path / "group", nameserver) as group:
        leader = group.wait_for_leader()
        await send(nameserver, 1)
        await finding_free(nameserver)
        follower = next(node for node in group.running if node != leader)
        process = group.running[follower]
        assert isinstance(process, SkyrocketProcess)
        stop(process)
        await send(nameserver, 3)
        behind = await finding_of(nameserver, "node-behind", topic="orders", every_s=0.3)
        process.kill()
        missing = await finding_of(nameserver, "node-missing", topic="orders")
    assert behind.what.startswith(f"Node {follower} of the DLedger group {BROKER} is behind: it takes nothing.")
    assert missing.evidence.startswith("2 of 3 nodes are registered: ")
    assert "no further node may fail" in missing.what
