"""A broker that starts on a full disk serves reads, refuses messages, and takes them by itself when there is room."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.full_disk_start import has_room, run_broker
from skyrocket.broker.settings import BrokerSettings
from skyrocket.protocol.headers import DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.changes_in_memory import ChangesInMemory
from skyrocket.store.errors import DiskFullError
from skyrocket.store.files import Disk
from skyrocket.store.offline.verify import verify
from tests.soak.faulty_disk import FULL, HEALTHY, DiskControl, FaultyDisk
from tests.support.brokers.running_broker import SMALL, RunningBroker, records
from tests.support.waiting import WAIT_S_MAX


def settings_of(folder: Path) -> BrokerSettings:
    return replace(SMALL, store_path=str(folder / "store"))


async def leave_crashed(folder: Path, control: DiskControl) -> None:
    """Leave a store as kill -9 does: its queues, index and checkpoint lack the last messages, and the log ends in torn bytes."""
    broker = Broker(settings_of(folder), files=FaultyDisk(control))
    await broker.start()
    served = RunningBroker(broker)
    for number in range(20):
        assert (await served.send("orders", b"%d" % number, properties={"KEYS": f"key{number}"})).code == 0
    await served.dialer.close()
    await broker._flusher.wait_flushed(broker.store.log.end)
    segment = broker.store.log.segments.path(0)
    end = broker.store.log.end
    broker.store.only_read("the process was killed")  # nothing more is written
    await broker.close()
    descriptor = os.open(segment, os.O_WRONLY)
    os.pwrite(descriptor, b"torn bytes", end)
    os.close(descriptor)


def content_of(folder: Path) -> dict[str, bytes]:
    """Return every file of the store but its tables and its lock."""
    found = [path for path in (folder / "store").rglob("*") if path.is_file() and "/config/" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if path.name != "lock"}


@asynccontextmanager
async def run(folder: Path, control: DiskControl) -> AsyncIterator[list[Broker]]:
    """Run a broker, and give those that have become ready, the last one last."""
    stopped, ready = asyncio.Event(), []
    files = FaultyDisk(control)
    running = asyncio.create_task(
        run_broker(
            lambda only_reads: Broker(settings_of(folder), files=files, only_reads=only_reads), stopped, ready.append, look_s=0.02
        )
    )
    try:
        yield ready
    finally:
        stopped.set()
        await running


async def until(is_so) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_it_serves_reads_refuses_messages_and_goes_on_when_there_is_room(tmp_path: Path):
    control = DiskControl(tmp_path / "disk")
    await leave_crashed(tmp_path, control)
    before = content_of(tmp_path)
    control.set(FULL)
    async with run(tmp_path, control) as ready:
        await until(lambda: ready)
        served = RunningBroker(ready[0])
        found = [record.body for record in records(await served.pull("orders", 0))]
        assert found == [b"%d" % number for number in range(20)]
        refused = await served.send("orders", b"refused")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "as soon as there is room" in (refused.remark or "")
        ready[0].offsets.commit("consumers", "orders", 0, 7)
        assert content_of(tmp_path) == before, "nothing on the disk has changed"
        await served.dialer.close()

        control.set(HEALTHY)
        await until(lambda: len(ready) == 2)
        served = RunningBroker(ready[1])
        assert (await served.send("orders", b"20")).code == 0
        found = [record.body for record in records(await served.pull("orders", 0))]
        assert found == [b"%d" % number for number in range(21)]
        assert ready[1].offsets.query("consumers", "orders", 0) == 7
        await served.dialer.close()
    assert [finding for finding in verify(tmp_path / "store") if finding.is_damage] == []


async def test_it_stops_when_it_is_told_to_while_the_disk_is_full(tmp_path: Path):
    control = DiskControl(tmp_path / "disk")
    await leave_crashed(tmp_path, control)
    before = content_of(tmp_path)
    control.set(FULL)
    with pytest.raises(DiskFullError, match=r"while saving .*/config/topics\.json"):  # as any broker that stops on a full disk
        async with run(tmp_path, control) as ready:
            await until(lambda: ready)
    assert content_of(tmp_path) == before
    control.set(HEALTHY)
    async with run(tmp_path, control) as ready:
        await until(lambda: ready)
        served = RunningBroker(ready[0])
        assert len(records(await served.pull("orders", 0))) == 20
        await served.dialer.close()


@pytest.mark.parametrize("starts_full", [False, True])
async def test_a_topic_that_is_deleted_on_a_full_disk_stays_and_the_answer_says_why(tmp_path: Path, starts_full: bool):
    control = DiskControl(tmp_path / "disk")
    await leave_crashed(tmp_path, control)
    if starts_full:
        control.set(FULL)
    async with run(tmp_path, control) as ready:
        await until(lambda: ready)
        control.set(FULL)
        served = RunningBroker(ready[0])
        header = DeleteTopicRequestHeader(topic="orders")
        refused = await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header)
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "The disk is full" in (refused.remark or "")
        assert len(records(await served.pull("orders", 0))) == 20
        await served.dialer.close()
        control.set(HEALTHY)
        await until(lambda: len(ready) == 1 + starts_full)
        served = RunningBroker(ready[-1])
        assert (await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header)).code == 0
        assert "orders" not in ready[-1].topics
        await served.dialer.close()


async def test_a_slave_does_not_start_on_a_full_disk(tmp_path: Path):
    control = DiskControl(tmp_path / "disk")
    control.set(FULL)
    settings = settings_of(tmp_path).with_texts({"brokerRole": "SLAVE", "brokerId": "1"})
    with pytest.raises(DiskFullError):
        await run_broker(
            lambda only_reads: Broker(settings, files=FaultyDisk(control), only_reads=only_reads), asyncio.Event(), lambda _: None
        )


def test_room_is_looked_for_and_left(tmp_path: Path):
    control = DiskControl(tmp_path / "disk")
    files = FaultyDisk(control)
    (tmp_path / "room").write_bytes(b"left by a broker that was killed")
    assert has_room(files, str(tmp_path))
    control.set(FULL)
    assert not has_room(files, str(tmp_path))
    assert not (tmp_path / "room").exists()


def test_changes_are_seen_and_stay_in_memory(tmp_path: Path):
    folder = str(tmp_path)
    for name in ("kept", "written", "removed"):
        (tmp_path / name).write_bytes(b"0123456789")
    (tmp_path / "below").mkdir()
    (tmp_path / "below/file").write_bytes(b"x")
    files = ChangesInMemory(Disk())
    file = files.open(f"{folder}/written", writable=True)
    assert file.read(2, 3) == b"234"
    file.write(2, b"abc")
    files.create(f"{folder}/new/file", 100, 0).write(0, b"new")
    files.replace(f"{folder}/small", b"small")
    files.remove(f"{folder}/removed")
    files.remove(f"{folder}/below")
    assert files.open(f"{folder}/written", writable=False).read(0, 10) == b"01abc56789"
    assert bytes(file.view()) == b"01abc56789"
    assert files.names(folder) == ["kept", "new", "small", "written"]
    assert files.names(f"{folder}/new") == ["file"]
    assert (files.read(f"{folder}/small"), files.size(f"{folder}/new/file")) == (b"small", 100)
    assert not files.exists(f"{folder}/below/file")
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/removed", writable=True)
    with pytest.raises(FileExistsError):
        files.create(f"{folder}/kept", 1, 0)
    files.freeze()
    for change in (lambda: file.write(0, b"x"), lambda: files.replace(f"{folder}/small", b""), lambda: files.create("y", 1, 0)):
        with pytest.raises(OSError, match="No space left"):
            change()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["below", "kept", "removed", "written"]
    assert (tmp_path / "written").read_bytes() == b"0123456789"
    files.remove(f"{folder}/kept")
    assert not (tmp_path / "kept").exists(), "an open store may make room"
