"""Deleting a topic waits for the disk beside the event loop, and is complete before it is acknowledged."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

from skyrocket.broker.broker import Broker
from skyrocket.protocol.headers import DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.files import Disk
from tests.support.brokers.running_broker import SMALL, RunningBroker, records
from tests.support.waiting import WAIT_S_MAX


class StallingDisk(Disk):
    """A disk that takes as long as the test wants to remove or sync anything of a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.waits = threading.Event()
        self.may_go_on = threading.Event()

    def _stall(self, path: str) -> None:
        if self.is_slow and "/consumequeue" in path:
            self.waits.set()
            assert self.may_go_on.wait(60)

    def remove(self, path: str) -> None:
        self._stall(path)
        super().remove(path)

    def replace(self, path: str, data: bytes) -> None:
        self._stall(path)
        super().replace(path, data)

    def sync_directory(self, path: str) -> None:
        self._stall(path)
        super().sync_directory(path)


async def test_the_broker_serves_clients_while_a_topic_is_deleted(tmp_path: Path):
    disk = StallingDisk()
    broker = Broker(replace(SMALL, store_path=str(tmp_path / "store")), files=disk)
    await broker.start()
    served = RunningBroker(broker)
    for queue_id in range(4):
        await served.send("orders", b"old", queue_id=queue_id)
    await served.send("others", b"x")
    disk.is_slow = True
    header = DeleteTopicRequestHeader(topic="orders")
    asked = asyncio.ensure_future(served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header))
    assert await asyncio.to_thread(disk.waits.wait, WAIT_S_MAX)
    assert [record.body for record in records(await served.pull("others", 0))] == [b"x"]
    assert (await served.send("orders", b"new")).fields["queueOffset"] == "0", "a producer creates it again at once"
    assert not asked.done()
    disk.is_slow = False
    disk.may_go_on.set()
    assert (await asked).code == 0
    assert [record.body for record in records(await served.pull("orders", 0))] == [b"new"]
    await served.dialer.close()
    await broker.close()
