"""Pulls of messages that are not in memory: the same responses as from memory, and nobody else waits for the disk."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.pull.cold_pulls import ColdPulls
from skyrocket.protocol.command import decode_command
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.message.record import iterate_records
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.cold_reads import ATTEMPTS_MAX, ColdReads, NotInMemoryError
from skyrocket.store.files import Disk, DiskFile
from tests.support.brokers.pull_parts import PullParts, a_filled_disk, a_pull
from tests.support.brokers.running_broker import SMALL, RunningBroker, records
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.twins import KINDS, using


@pytest.fixture(autouse=True, params=KINDS)
def _kind(request: pytest.FixtureRequest) -> Iterator[None]:
    with using(request.param):
        yield


async def settle(parts: PullParts) -> None:
    """Wait until no pull waits for the disk, and everything is written."""
    async with asyncio.timeout(60):
        await parts.server.router.drain()
    await asyncio.sleep(0)


def some_pulls() -> list[bytes]:
    queue_0 = [a_pull(1 + at, 9 * at, max_msg_nums=9) for at in range(5)]
    return [*queue_0, a_pull(20, 0, queue_id=1), a_pull(21, 3, tags="red"), a_pull(22, 0, code=361), a_pull(23, 10**6)]


def found(parts: PullParts) -> dict[int, tuple[int, str | None, list[int]]]:
    """Return what each response contains, by its opaque number: cold pulls may be answered in another order."""
    answers = [decode_command(frame) for frame in FrameSplitter().feed(parts.transport.written)]
    return {one.opaque: (one.code, one.remark, [record.queue_offset for record in iterate_records(one.body)]) for one in answers}


@pytest.mark.parametrize("fast_path", [True, False])
async def test_cold_pulls_find_what_warm_ones_do(fast_path: bool):
    disk = a_filled_disk()
    warm, cold = PullParts(fast_path=fast_path, disk=disk.copy()), PullParts(fast_path=fast_path, disk=disk)
    disk.forget_pages()
    for parts in (warm, cold):
        parts.connection.data_received(b"".join(some_pulls()))
        if parts is cold:
            assert len(found(cold)) < len(some_pulls()), "no pull has waited for the disk"
        await settle(parts)
    assert found(cold) == found(warm)
    assert len(found(cold)) == len(some_pulls())
    assert cold.state()["counted"] == warm.state()["counted"]


def spoil_first_record(disk: SimulatedDisk) -> None:
    disk.spoil_sector("store/commitlog/" + "0" * 20, 100)


async def test_error_of_the_disk_reaches_the_client_as_from_a_read_that_waits():
    disk = a_filled_disk()
    waiting, cold = PullParts(fast_path=True, disk=disk.copy()), PullParts(fast_path=True, disk=disk)
    for parts, its_disk in ((waiting, waiting.store._files), (cold, disk)):
        assert isinstance(its_disk, SimulatedDisk)
        spoil_first_record(its_disk)
        for number in range(1, 5):
            if parts is cold:
                its_disk.forget_pages()
            parts.connection.data_received(a_pull(number, 0, max_msg_nums=3))
            await settle(parts)
    assert found(cold) == found(waiting)
    codes = [found(cold)[number][0] for number in range(1, 5)]
    assert codes == [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS, ResponseCode.SUCCESS]
    assert cold.store.reading.unreadable == waiting.store.reading.unreadable


async def test_reader_that_never_finds_its_bytes_waits_in_the_end():
    """A file system may drop pages as fast as they are read."""
    reads, calls = ColdReads(), 0
    file = SimulatedDisk().create("file", 1000, 0)

    def read() -> str:
        nonlocal calls
        calls += 1
        if reads.attempt is not None:
            raise NotInMemoryError(file, calls % 1000, 1, reads.attempt)
        return "read"

    pulls = ColdPulls(reads)
    assert await pulls.read(read) == "read"
    assert calls == ATTEMPTS_MAX + 1
    assert pulls.waiting == 0
    pulls.close()


# --- the real disk


def drop_pages(store: Path) -> None:
    for path in store.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


class HeldFile(DiskFile):
    """A file of which nothing is in memory. Reads wait until the test lets them go."""

    held = threading.Event()
    waiting = threading.Semaphore(0)

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        return HeldFile.held.is_set() and super().read_into_now(at, buffer)

    def read(self, at: int, size: int) -> bytes:
        HeldFile.waiting.release()
        assert threading.current_thread() is not threading.main_thread() or HeldFile.held.is_set(), "the loop waits for the disk"
        assert HeldFile.held.wait(60)
        return super().read(at, size)


class HeldDisk(Disk):
    """A disk whose files of the log are held. Files that are created stay in memory."""

    def open(self, path: str, *, writable: bool) -> Any:
        file = super().open(path, writable=writable)
        if "commitlog" in path:
            file.__class__ = HeldFile
        return file


async def a_filled_broker(path: Path, count: int) -> None:
    broker = Broker(replace(SMALL, store_path=str(path)))
    await broker.start()
    served = RunningBroker(broker)
    for number in range(count):
        await served.send("orders", b"%04d" % number + bytes(2000))
    await served.dialer.close()
    await broker.close()


async def test_messages_of_dropped_pages_are_read(tmp_path: Path):
    await a_filled_broker(tmp_path, 40)
    broker = Broker(replace(SMALL, store_path=str(tmp_path)))
    await broker.start()
    served = RunningBroker(broker)
    drop_pages(tmp_path)
    got: list[bytes] = []
    while len(got) < 40:
        answer = await served.pull("orders", len(got), max_msg_nums=7)
        assert answer.code == ResponseCode.SUCCESS, answer
        got += [record.body[:4] for record in records(answer)]
    assert got == [b"%04d" % number for number in range(40)]
    await served.dialer.close()
    await broker.close()


async def test_sends_go_on_while_a_pull_waits_for_the_disk(tmp_path: Path):
    await a_filled_broker(tmp_path, 5)
    HeldFile.held.set()
    broker = Broker(replace(SMALL, store_path=str(tmp_path)), files=HeldDisk())
    await broker.start()
    served, other = RunningBroker(broker), RunningBroker(broker)
    HeldFile.held.clear()
    try:
        pull = asyncio.ensure_future(served.pull("orders", 0))
        await asyncio.to_thread(HeldFile.waiting.acquire)
        for number in range(50):
            sent = await other.send("elsewhere", b"%d" % number)
            assert sent.code == ResponseCode.SUCCESS
        assert not pull.done()
    finally:
        HeldFile.held.set()
    assert [record.body[:4] for record in records(await pull)] == [b"%04d" % number for number in range(5)]
    await served.dialer.close()
    await other.dialer.close()
    await broker.close()


def test_file_system_that_cannot_tell_what_is_in_memory_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = Disk().create(f"{tmp_path}/file", 5000, 0)
    file.write(4000, b"hello")
    preadv, asked = os.preadv, []

    def refusing(descriptor: int, buffers: Any, at: int, flags: int = 0) -> int:
        asked.append(flags)
        if flags:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return preadv(descriptor, buffers, at)

    monkeypatch.setattr(os, "preadv", refusing)
    for _ in range(2):
        buffer = bytearray(5)
        assert file.read_into_now(4000, memoryview(buffer))
        assert bytes(buffer) == b"hello"
    assert asked == [os.RWF_NOWAIT, 0, 0]


def test_only_what_is_in_memory_is_read_now(tmp_path: Path):
    file = Disk().create(f"{tmp_path}/file", 1_000_000, 0)
    file.write(0, b"x" * 1_000_000)
    buffer = memoryview(bytearray(200_000))
    assert file.read_into_now(400_000, buffer)
    file.sync()
    drop_pages(tmp_path)
    if file.read_into_now(400_000, buffer):
        pytest.skip("this file system does not drop pages, or cannot tell")
    file.read(400_000, 200_000)
    assert file.read_into_now(400_000, buffer)
