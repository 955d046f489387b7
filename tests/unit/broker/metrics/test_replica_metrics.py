"""Metrics of masters, slaves and DLedger nodes: brokers of one process, with real connections between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.protocol.responses import ResponseCode
from skyrocket.raft.config import FAST_TIMINGS
from skyrocket.settings.metrics import MetricsExporter
from tests.support.brokers.running_broker import RunningBroker, running
from tests.support.ports import free_port
from tests.support.processes.http_client import Page, ask_async, scrape
from tests.support.waiting import WAIT_S_MAX

ON: dict[str, Any] = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0}


def port_of(served: RunningBroker) -> int:
    assert served.broker.monitoring is not None
    return served.broker.monitoring.port


async def page_when(served: RunningBroker, is_so: Callable[[Page], bool]) -> Page:
    """Scrape until the page is as wanted."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so(page := await scrape(port_of(served))):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return page


async def test_a_sync_master_and_its_slave(tmp_path: Path):
    master_settings = {"role": BrokerRole.SYNC_MASTER, "port": free_port(-2, 1)}
    async with running(tmp_path / "master", **ON, **master_settings) as master:
        ha_address = f"127.0.0.1:{master.broker.replication.ha_port}"
        slave_settings = {"role": BrokerRole.SLAVE, "broker_id": 1, "ha_master_address": ha_address}
        async with running(tmp_path / "slave", **ON, **slave_settings) as slave:
            async with asyncio.timeout(WAIT_S_MAX):
                while (await master.send("orders", b"x")).code != ResponseCode.SUCCESS:  # noqa: ASYNC110 — until the slave is there
                    await asyncio.sleep(0.05)
            page = await page_when(master, lambda page: page.value("skyrocket_stage_seconds_count", stage="replicate") >= 1)
            assert page.value("skyrocket_slave_lag_bytes") >= 0
            assert (
                page.value("skyrocket_is_master"),
                page.value("skyrocket_slaves"),
                page.value("skyrocket_slaves_in_sync"),
            ) == (1, 1, 1)
            assert page.value("skyrocket_stage_seconds_count", stage="park") >= 1
            assert "skyrocket_master_silent_seconds" not in page.samples
            page = await page_when(slave, lambda page: "skyrocket_master_silent_seconds" in page.samples)
            assert page.value("skyrocket_is_master") == 0
            assert 0 <= page.value("skyrocket_master_silent_seconds") < WAIT_S_MAX
            assert "skyrocket_slaves" not in page.samples


async def test_nodes_of_a_group(tmp_path: Path):
    ports = {f"n{number}": free_port() for number in range(3)}
    peers = ";".join(f"{name}-127.0.0.1:{port}" for name, port in ports.items())
    group = {"dledger": True, "dledger_group": "g", "dledger_peers": peers, "broker_name": "g"}
    timings = replace(FAST_TIMINGS, heartbeat_ms=700)  # all nodes share a thread, on a machine that may be busy
    async with AsyncExitStack() as stack:
        nodes: list[RunningBroker] = []
        for name in ports:
            node = running(tmp_path / name, **ON, **group, dledger_self_id=name, dledger_timings=timings)
            nodes.append(await stack.enter_async_context(node))
            if len(nodes) == 1:
                alone = await ask_async(port_of(nodes[0]), "/readyz")
                assert (alone.status, alone.text) == (503, "This node knows no leader of its DLedger group.\n")

        def has_leader(page: Page) -> bool:
            return page.value("skyrocket_dledger_has_leader") == 1

        pages = [await page_when(node, has_leader) for node in nodes]
        assert all(page.value("skyrocket_dledger_term") >= 0 for page in pages)
        async with asyncio.timeout(WAIT_S_MAX):
            while True:
                leader = next((node for node in nodes if not node.broker.roles.is_slave), None)
                if leader is not None and (await leader.send("orders", b"x")).code == ResponseCode.SUCCESS:
                    break
                await asyncio.sleep(0.05)
        page = await page_when(leader, lambda page: page.value("skyrocket_stage_seconds_count", stage="replicate") >= 1)
        assert len(page.samples["skyrocket_dledger_lag_entries"]) == 2
        assert page.value("skyrocket_dledger_uncommitted_entries") >= 0
        async with asyncio.timeout(WAIT_S_MAX):
            while (await ask_async(port_of(leader), "/readyz")).status != 200:  # noqa: ASYNC110 — a busy machine may depose it
                await asyncio.sleep(0.05)
