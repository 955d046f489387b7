"""Delays, timers, checks of transactions and queries need old messages: while the disk reads them, the event loop goes on."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from skyrocket.broker.broker import Broker
from skyrocket.broker.scheduler import Scheduler
from skyrocket.protocol.headers import QueryMessageRequestHeader, ViewMessageRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.store.cold_reads import ColdReads, RepeatedReads
from skyrocket.store.files import Disk, DiskFile
from tests.support.brokers.running_broker import SMALL, RunningBroker, records
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.waiting import WAIT_S_MAX


class ColdFile(DiskFile):
    """A file of which nothing is in memory. It notes reads that make the event loop wait."""

    waits: list[str] = []  # noqa: RUF012 — of all files
    is_open = False  # the broker serves clients

    def read_into_now(self, at: int, buffer: memoryview) -> bool:
        return False

    def read(self, at: int, size: int) -> bytes:
        self._note()
        return super().read(at, size)

    def read_into(self, at: int, buffer: memoryview) -> int:
        self._note()
        return super().read_into(at, buffer)

    def _note(self) -> None:
        if ColdFile.is_open and threading.current_thread() is threading.main_thread():
            ColdFile.waits.append("".join(traceback.format_stack(limit=12)))


class ColdDisk(Disk):
    """A disk that has to read the log and the index from its platters. Files that are created stay in memory."""

    def open(self, path: str, *, writable: bool) -> Any:
        file = super().open(path, writable=writable)
        if "commitlog" in path or "/index/" in path:
            file.__class__ = ColdFile
        return file


async def fill(settings: Any) -> None:
    """Leave a delayed, a timed and a half message, and one with a key, in a store."""
    broker = Broker(settings)
    await broker.start()
    served = RunningBroker(broker)
    await served.send("orders", b"with a key", properties={"UNIQ_KEY": "7F000001", "KEYS": "green"})
    await served.send("orders", b"delayed", properties={"UNIQ_KEY": "7F000002", "DELAY": "1"})
    due_ms = str(int(time.time() * 1000) + 1_000)
    await served.send("orders", b"timed", properties={"UNIQ_KEY": "7F000003", "TIMER_DELIVER_MS": due_ms})
    half = {"UNIQ_KEY": "7F000004", "TRAN_MSG": "true", "PGROUP": "shop"}
    await served.send("orders", b"half", properties=half, sys_flag=TRANSACTION_PREPARED)
    await served.dialer.close()
    await broker.close()


async def test_nothing_waits_for_the_disk_on_the_event_loop(tmp_path: Path):
    settings = replace(SMALL, store_path=str(tmp_path), transaction_check_interval_ms=100, transaction_timeout_ms=100)
    await fill(settings)
    ColdFile.waits.clear()
    ColdFile.is_open = False
    broker = Broker(settings, files=ColdDisk())
    await broker.start()
    ColdFile.is_open = True
    served = RunningBroker(broker)
    try:
        bodies: list[bytes] = []

        async with asyncio.timeout(WAIT_S_MAX):
            while len(bodies) < 3:
                bodies += [record.body for record in records(await served.pull("orders", len(bodies)))]
                await asyncio.sleep(0.05)
        assert sorted(bodies) == [b"delayed", b"timed", b"with a key"]
        wanted = QueryMessageRequestHeader(topic="orders", key="green", max_num=8, begin_timestamp=0, end_timestamp=2**62)
        queried = await served.ask(RequestCode.QUERY_MESSAGE, wanted)
        assert (queried.code, [record.body for record in records(queried)]) == (ResponseCode.SUCCESS, [b"with a key"])
        viewed = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=0))
        assert [record.body for record in records(viewed)] == [b"with a key"]
        await asyncio.sleep(0.3)  # rounds of checks of transactions
    finally:
        ColdFile.is_open = False
        await served.dialer.close()
        await broker.close()
    assert not ColdFile.waits, ColdFile.waits[0]


async def test_check_is_called_again_when_its_bytes_are_in_memory():
    disk = SimulatedDisk()
    file = disk.create("file", 4096, 0)
    file.write(0, b"hello")
    file.sync()
    disk.forget_pages()
    reads = ColdReads()
    repeated, asked, other = RepeatedReads(reads), [], []

    def check(now_ms: int) -> int | None:
        asked.append(now_ms)
        asked.append(repeated.read("greeting", lambda: reads.read(file, 0, 5)))
        return None

    scheduler = Scheduler(lambda: 1_000)
    scheduler.add(check)
    scheduler.add(lambda now_ms: other.append(now_ms) or now_ms)
    scheduler.turn()
    scheduler.wake(check)
    scheduler.turn()
    assert asked == [1_000], "it is not called while the disk reads"
    assert len(other) == 2, "other checks go on"
    async with asyncio.timeout(WAIT_S_MAX):
        while asked != [1_000, 1_000, b"hello"]:
            await asyncio.sleep(0.001)
            scheduler.turn()
