"""`/readyz` and `/healthz` of a broker: while it starts and stops, and when it takes no messages."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.full_disk_start import run_broker
from skyrocket.net.errors import NetError
from skyrocket.settings.metrics import MetricsExporter
from tests.soak.faulty_disk import FULL, HEALTHY, DiskControl, FaultyDisk
from tests.support.brokers.running_broker import SMALL, running
from tests.support.ports import free_port
from tests.support.processes.http_client import Answer, ask, ask_async
from tests.support.waiting import WAIT_S_MAX

ON = {"metrics_exporter": MetricsExporter.PROM, "metrics_port": 0}


async def readiness(broker: Broker) -> tuple[int, str]:
    assert broker.monitoring is not None
    answer = await ask_async(broker.monitoring.port, "/readyz")
    return answer.status, answer.text


async def test_a_broker_is_not_ready_while_its_store_recovers_and_alive_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broker = Broker(replace(SMALL, store_path=str(tmp_path / "store"), **ON))
    seen: list[Answer] = []
    open_store = broker.store.open

    def ask_meanwhile() -> None:
        assert broker.monitoring is not None
        seen.extend(ask(broker.monitoring.port, path) for path in ("/healthz", "/readyz", "/metrics"))

    def open_slowly() -> object:
        """Recovery holds up the event loop. Who asks meanwhile gets an answer."""
        asking = threading.Thread(target=ask_meanwhile)
        asking.start()
        asking.join(WAIT_S_MAX)
        return open_store()

    monkeypatch.setattr(broker.store, "open", open_slowly)
    await broker.start()
    assert [(one.status, one.text) for one in seen] == [
        (200, "starting\n"),
        (503, "The broker is starting.\n"),
        (503, "The broker is starting.\n"),
    ]
    assert await readiness(broker) == (200, "ready\n")
    await broker.close()


async def test_a_broker_that_stops_is_not_ready(tmp_path: Path):
    broker = Broker(replace(SMALL, store_path=str(tmp_path / "store"), **ON))
    await broker.start()
    assert broker.monitoring is not None
    seen, port = [], broker.monitoring.port

    async def ask_while_closing() -> None:
        seen.append(await readiness(broker))
        seen.append((await ask_async(port, "/metrics"))[::2])

    broker._closing.push_async_callback(ask_while_closing)
    await broker.close()
    assert seen == [(503, "The broker is stopping.\n")] * 2
    with pytest.raises(ConnectionRefusedError):
        ask(port, "/readyz")


async def test_a_full_disk_and_a_failed_flush_are_reasons(tmp_path: Path):
    async with running(tmp_path, **ON) as served:
        store = served.broker.store
        store.retention.too_full = "The disk is 95 % full."
        assert await readiness(served.broker) == (503, "The disk is 95 % full.\n")
        store.retention.too_full = None
        assert (await readiness(served.broker))[0] == 200
        store.stop_writes("input/output error")
        assert await readiness(served.broker) == (503, "input/output error\n")


async def test_a_broker_that_starts_on_a_full_disk_is_ready_when_there_is_room(tmp_path: Path):
    """Its port is the same before and after: the broker starts anew within the process."""
    control, port = DiskControl(tmp_path / "disk"), free_port()
    settings = replace(SMALL, store_path=str(tmp_path / "store"), metrics_exporter=MetricsExporter.PROM, metrics_port=port)
    broker = Broker(settings, files=FaultyDisk(control))
    await broker.start()
    await broker.close()
    control.set(FULL)
    stopped, ready = asyncio.Event(), list[Broker]()
    files = FaultyDisk(control)
    serving = asyncio.create_task(
        run_broker(lambda only_reads: Broker(settings, files=files, only_reads=only_reads), stopped, ready.append, look_s=0.02)
    )
    async with asyncio.timeout(WAIT_S_MAX):
        while not ready:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        refused = await ask_async(port, "/readyz")
        assert (refused.status, "as soon as there is room" in refused.text) == (503, True)
        assert (await ask_async(port, "/healthz")).status == 200
        control.set(HEALTHY)
        while len(ready) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await ask_async(port, "/readyz")).status == 200
    stopped.set()
    await serving


async def test_a_port_that_is_in_use_is_one_sentence(tmp_path: Path):
    async with running(tmp_path, **ON) as served:
        assert served.broker.monitoring is not None
        port = served.broker.monitoring.port
        other = Broker(replace(SMALL, store_path=str(tmp_path / "other"), **{**ON, "metrics_port": port}))
        with pytest.raises(NetError, match=f"Cannot listen on 127.0.0.1:{port}: .* metricsPromExporterPort"):
            await other.start()
        await other.close()
