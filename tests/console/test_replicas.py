"""The console over a master with a slave: roles, how far the slave is behind, and what is said when one of them is gone."""

from __future__ import annotations

from pathlib import Path

from tests.support.pages.console import Visitor, running_console
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

BOTH = {"brokerName": "pair", "brokerIP2": "127.0.0.1", "registerNameServerPeriod": 10_000}


def test_a_slave_and_its_lag_are_shown_and_a_dead_master_needs_attention(tmp_path: Path):
    ports = {"haListenPort": free_port()}
    with (
        SkyrocketNameserver(tmp_path / "names") as names,
        SkyrocketBroker(tmp_path / "master", names.nameserver, {**BOTH, **ports, "brokerRole": "ASYNC_MASTER"}) as master,
        SkyrocketBroker(tmp_path / "slave", names.nameserver, {**BOTH, "brokerRole": "SLAVE", "brokerId": 1}) as slave,
        running_console(names.nameserver) as console,
    ):
        visitor = Visitor(console.url)
        wait_until(lambda: "0 B behind" in visitor.read("/cluster"), lambda: f"the slave: {visitor.read('/cluster')}")
        page = visitor.read("/cluster")
        assert f"pair slave 1 {slave.address}" in page
        assert f"{names.nameserver} 2 answers" in page
        assert "Copies from" in visitor.read(f"/brokers/{slave.address}")
        master.kill()
        wait_until(lambda: "Broker pair has no master" in visitor.read("/"), "the nameserver knows that the master is gone")
        assert f"pair slave 1 {slave.address}" in visitor.read("/"), "the slave is still there"
        visitor.close()
