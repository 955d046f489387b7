"""Group commit: waiters share a flush, and the first failed flush stops writes."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from skyrocket.protocol.message.record import Record
from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import DiskFullError, StoreClosedError, StoreIOError, WritesStoppedError
from skyrocket.store.files import Disk, DiskFile, File
from skyrocket.store.flusher import Flusher, checkpoint_pause_ms, flush_is_due
from skyrocket.store.message import append_request_of
from skyrocket.store.message_store import FlushJob, MessageStore
from skyrocket.store.queues.consume_queue import ConsumeQueue
from skyrocket.store.sync_jobs import CheckpointJob
from tests.support.waiting import WAIT_S_MAX

MESSAGE = append_request_of(Record("orders", b"hello"))


class GatedFile(DiskFile):
    """A file that counts syncs of the log and blocks them at a gate."""

    gate: threading.Event
    syncs = 0
    fails = False

    def sync(self) -> None:
        self.gate.wait(10)
        type(self).syncs += 1
        if self.fails:
            raise OSError(errno.EIO, "Input/output error")
        super().sync()


class GatedDisk(Disk):
    def __init__(self) -> None:
        super().__init__()
        self.kind = type("Kind", (GatedFile,), {"gate": threading.Event(), "syncs": 0, "fails": False})
        self.kind.gate.set()

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        super().create(path, size, allocated, durable=durable).close()
        return self.open(path, writable=True)

    def open(self, path: str, *, writable: bool) -> File:
        file = super().open(path, writable=writable)
        if "/commitlog/" in path:
            file.__class__ = self.kind
        return file


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def store(tmp_path, disk: GatedDisk):
    store = MessageStore(tmp_path, StoreConfig(segment_bytes=65536, sync_flush=True, index_enabled=False), files=disk)
    store.open()
    store.append([MESSAGE], 0)
    store.flush()
    disk.kind.syncs = 0
    yield store
    store.close()


@asynccontextmanager
async def running_flusher(store: MessageStore) -> AsyncIterator[Flusher]:
    flusher = Flusher(store, lambda: 0)
    try:
        yield flusher
    finally:
        await flusher.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 — a thread makes it so
            await asyncio.sleep(0.001)


async def test_waiters_share_one_flush(store: MessageStore, disk: GatedDisk):
    async with running_flusher(store) as flusher:
        disk.kind.gate.clear()
        store.append([MESSAGE], 0)
        first = asyncio.create_task(flusher.wait_flushed(store.horizon.appended))
        await asyncio.sleep(0.05)  # the first flush stands at the gate
        others = []
        for _ in range(50):
            store.append([MESSAGE], 0)
            others.append(asyncio.create_task(flusher.wait_flushed(store.horizon.appended)))
        await asyncio.sleep(0.01)
        assert not first.done()
        disk.kind.gate.set()
        await asyncio.gather(first, *others)
        assert disk.kind.syncs == 2
        assert store.horizon.confirmed == store.horizon.appended


async def test_the_next_flush_begins_before_anybody_hears_of_the_one_before(store: MessageStore, disk: GatedDisk):
    """So the disk works while answers are written."""
    begun: list[bool] = []
    begin, jobs = store.begin_flush, []

    def begin_flush() -> FlushJob | None:
        jobs.append(begin())
        return jobs[-1]

    store.begin_flush = begin_flush  # type: ignore[method-assign]
    flusher = Flusher(store, lambda: 0, on_confirmed=lambda: begun.append(len(jobs) > len(begun) + 1))
    disk.kind.gate.clear()
    store.append([MESSAGE], 0)
    flusher.on_append()
    await until(lambda: len(jobs) == 1)
    for _ in range(3):
        store.append([MESSAGE], 0)
        flusher.on_append()
    disk.kind.gate.set()
    await flusher.wait_flushed(store.horizon.appended)
    assert begun[0] is True
    assert disk.kind.syncs == 2
    await flusher.close()


async def test_a_flush_does_not_wait_for_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A checkpoint syncs the files of all queues, which may take seconds."""
    store = MessageStore(tmp_path, StoreConfig(segment_bytes=65536, sync_flush=True, checkpoint_interval_ms=1))
    store.open()
    gate, stands = threading.Event(), threading.Event()
    run = CheckpointJob.run

    def run_later(job: CheckpointJob) -> None:
        stands.set()
        gate.wait(60)
        run(job)

    monkeypatch.setattr(CheckpointJob, "run", run_later)
    clock = count(step=1000)
    flusher = Flusher(store, lambda: next(clock))
    await until(stands.is_set)
    for _ in range(5):
        store.append([MESSAGE], 0)
        async with asyncio.timeout(60):
            await flusher.wait_flushed(store.horizon.appended)
    assert not gate.is_set()
    gate.set()
    await flusher.close()
    store.close()


async def test_a_failed_checkpoint_ends_the_flusher(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    def fail(_job: CheckpointJob) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(CheckpointJob, "run", fail)
    monkeypatch.setattr(store, "config", replace(store.config, checkpoint_interval_ms=1))
    clock = count(step=1000)
    flusher = Flusher(store, lambda: next(clock))

    def is_stopped() -> bool:
        try:
            store.append_position(0)
        except WritesStoppedError:
            return True
        return False

    await until(is_stopped)
    with pytest.raises(WritesStoppedError):
        await flusher.wait_flushed(store.horizon.appended + 1)
    await flusher.close()


async def test_late_writes_that_fail_are_tried_again_with_the_next_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    store = MessageStore(tmp_path, StoreConfig(segment_bytes=65536, checkpoint_interval_ms=1, flush_interval_ms=1))
    store.open()
    write, failures = ConsumeQueue.write_late, [DiskFullError("The disk is full.")] * 2

    def write_late(queue: ConsumeQueue) -> None:
        if failures:
            raise failures.pop()
        write(queue)

    monkeypatch.setattr(ConsumeQueue, "write_late", write_late)
    store.append([MESSAGE], 0)
    clock = count(step=1000)
    flusher = Flusher(store, lambda: next(clock))
    await until(lambda: not failures and store.queues.late_bytes == 0)
    assert caplog.text.count("could not be written and are tried again: The disk is full.") == 2
    await flusher.close()
    store.append([MESSAGE], 0)
    store.close()


@pytest.mark.parametrize(("written_ms", "pause_ms"), [(0, 1_000), (50, 1_000), (100, 2_000), (400, 8_000), (9_999, 10_000)])
def test_late_writes_take_a_small_part_of_the_time(written_ms: int, pause_ms: int):
    assert checkpoint_pause_ms(StoreConfig(), written_ms) == pause_ms
    assert checkpoint_pause_ms(StoreConfig(checkpoint_interval_ms=60_000), written_ms) == 60_000


async def test_message_is_not_readable_before_it_is_flushed(store: MessageStore, disk: GatedDisk):
    async with running_flusher(store) as flusher:
        disk.kind.gate.clear()
        store.append([MESSAGE], 0)
        flusher.on_append()
        await asyncio.sleep(0.05)
        assert len(store.reading.messages("orders", 0, 0, 10).records) == 1
        disk.kind.gate.set()
        await flusher.wait_flushed(store.horizon.appended)
        assert len(store.reading.messages("orders", 0, 0, 10).records) == 2


async def test_failed_flush_is_raised_to_every_waiter_and_stops_writes(store: MessageStore, disk: GatedDisk):
    async with running_flusher(store) as flusher:
        store.append([MESSAGE], 0)
        disk.kind.fails = True
        waiters = [asyncio.create_task(flusher.wait_flushed(store.horizon.appended)) for _ in range(3)]
        for waiter in waiters:
            with pytest.raises(WritesStoppedError, match="Input/output error"):
                await waiter
        disk.kind.fails = False  # the disk is well again; what it lost is not
        with pytest.raises(WritesStoppedError):
            await flusher.wait_flushed(store.horizon.appended)
        with pytest.raises(WritesStoppedError):
            store.append([MESSAGE], 0)
        assert len(store.reading.messages("orders", 0, 0, 10).records) == 1
    assert disk.kind.syncs == 1


async def test_a_failure_of_what_waits_for_a_flush_does_not_stop_the_next_flush(
    store: MessageStore, caplog: pytest.LogCaptureFixture
):
    def fail() -> None:
        raise StoreIOError("A file operation failed (Input/output error) while reading.")

    flusher = Flusher(store, lambda: 0, on_confirmed=fail)
    for _ in range(2):
        store.append([MESSAGE], 0)
        await flusher.wait_flushed(store.horizon.appended)
    await flusher.close()
    assert caplog.text.count("Not everything that waited for a flush could be woken") == 2


async def test_a_flush_that_cannot_begin_is_tried_again(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    begin, failures = store.begin_flush, [OSError(errno.EMFILE, "Too many open files"), StoreIOError("no more files")]
    monkeypatch.setattr(store, "config", replace(store.config, flush_interval_ms=10))

    def begin_flush() -> FlushJob | None:
        if failures:
            raise failures.pop()
        return begin()

    monkeypatch.setattr(store, "begin_flush", begin_flush)
    async with running_flusher(store) as flusher:
        store.append([MESSAGE], 0)
        async with asyncio.timeout(60):
            await flusher.wait_flushed(store.horizon.appended)
        assert not failures
        store.append([MESSAGE], 0)


async def test_an_unexpected_failure_stops_writes_and_is_reported(store: MessageStore, monkeypatch: pytest.MonkeyPatch):
    def begin_flush() -> FlushJob | None:
        raise ValueError("a bug")

    reported: list[Exception] = []
    flusher = Flusher(store, lambda: 0, on_broken=reported.append)
    store.append([MESSAGE], 0)
    monkeypatch.setattr(store, "begin_flush", begin_flush)
    with pytest.raises(WritesStoppedError, match="a bug"):
        await flusher.wait_flushed(store.horizon.appended)
    monkeypatch.undo()
    with pytest.raises(WritesStoppedError, match="a bug"):
        store.append([MESSAGE], 0)
    assert [str(error) for error in reported] == ["a bug"]
    await flusher.close()


async def test_waiting_for_a_flushed_position_returns_at_once(store: MessageStore, disk: GatedDisk):
    async with running_flusher(store) as flusher:
        await flusher.wait_flushed(store.horizon.flushed)
        assert disk.kind.syncs == 0


async def test_a_change_of_the_store_waits_until_no_flush_is_under_way(store: MessageStore, disk: GatedDisk):
    flusher = Flusher(store, lambda: 0)
    store.append([MESSAGE], 1)
    disk.kind.gate.clear()
    flushed = asyncio.ensure_future(flusher.wait_flushed(store.log.end))
    await asyncio.sleep(0.05)
    syncs: list[int] = []
    changed = asyncio.ensure_future(flusher.run_alone(lambda: syncs.append(disk.kind.syncs)))
    await asyncio.sleep(0.05)
    assert not changed.done()
    before = disk.kind.syncs
    disk.kind.gate.set()
    await changed
    await flushed
    assert syncs == [before + 1]
    await flusher.close()


async def test_cancelled_waiter_does_not_affect_the_others(store: MessageStore, disk: GatedDisk):
    async with running_flusher(store) as flusher:
        disk.kind.gate.clear()
        store.append([MESSAGE], 0)
        impatient = asyncio.create_task(flusher.wait_flushed(store.horizon.appended))
        patient = asyncio.create_task(flusher.wait_flushed(store.horizon.appended))
        await asyncio.sleep(0.02)
        impatient.cancel()
        disk.kind.gate.set()
        await patient


async def test_close_flushes_for_waiters_and_refuses_new_ones(store: MessageStore):
    flusher = Flusher(store, lambda: 0)
    store.append([MESSAGE], 0)
    waiter = asyncio.create_task(flusher.wait_flushed(store.horizon.appended))
    await asyncio.sleep(0)
    await flusher.close()
    await waiter
    with pytest.raises(StoreClosedError):
        await flusher.wait_flushed(store.horizon.appended + 1)


@pytest.mark.parametrize(
    ("dirty_bytes", "since_ms", "due"),
    [(0, 99_999, False), (1, 0, False), (4 * 4096 - 1, 0, False), (4 * 4096, 0, True), (1, 10_000, True)],
)
def test_async_flush_is_due_after_enough_pages_or_enough_time(dirty_bytes: int, since_ms: int, due: bool):
    assert flush_is_due(StoreConfig(), dirty_bytes, since_ms) is due
