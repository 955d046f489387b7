"""Expired log files are deleted beside the event loop: the broker serves clients meanwhile, however slow the disk is."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

from skyrocket.broker.broker import Broker
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.files import Disk
from tests.support.brokers.running_broker import SMALL, RunningBroker, records
from tests.support.waiting import WAIT_S_MAX


class StallingDisk(Disk):
    """A disk that is too full, and takes as long as the test wants to delete a segment."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 10.0
        self.removing = threading.Event()
        self.may_remove = threading.Event()

    def used_percent(self, path: str) -> float:
        return self.used

    def remove(self, path: str) -> None:
        if "/commitlog/" in path:
            self.removing.set()
            assert self.may_remove.wait(60)
        super().remove(path)


async def test_the_broker_serves_clients_while_a_file_is_deleted(tmp_path: Path):
    disk = StallingDisk()
    settings = replace(SMALL, store_path=str(tmp_path / "store"), segment_bytes=64 * 1024, sync_flush=True)
    broker = Broker(settings, files=disk)
    await broker.start()
    served = RunningBroker(broker)
    for number in range(30):
        await served.send("orders", b"%d" % number + bytes(8_000))
    disk.used = 95.0
    asked = asyncio.ensure_future(served.ask(RequestCode.DELETE_EXPIRED_COMMITLOG))
    assert await asyncio.to_thread(disk.removing.wait, WAIT_S_MAX)
    queue = broker.store.queues.get("orders", 0)
    assert queue is not None
    assert 0 < queue.min_offset < 30
    assert records(await served.pull("orders", queue.min_offset, max_msg_nums=1))[0].queue_offset == queue.min_offset
    assert not asked.done()
    disk.may_remove.set()
    assert (await asked).code == 0
    assert min(int(path.name) for path in (tmp_path / "store/commitlog").iterdir()) == broker.store.log.start > 0
    await served.dialer.close()
    await broker.close()
