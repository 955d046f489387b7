"""The event loop does not wait for slow file work: retention, first messages of queues, and the deletion of topics."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.headers import DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.files import Disk, File
from tests.support.brokers.running_broker import records, running
from tests.support.processes.loop_pauses import measured_pauses
from tests.support.stores.store_messages import a_message
from tests.support.waiting import WAIT_S_MAX

SLOW_S = 0.1  # twice what the loop may stand still


class SlowDisk(Disk):
    """A disk that is full, and deletes a log file in the time that a gigabyte takes."""

    used = 10.0

    def used_percent(self, path: str) -> float:
        return self.used

    def remove(self, path: str) -> None:
        if "/commitlog/" in path:
            time.sleep(SLOW_S)
        super().remove(path)


async def test_ten_files_are_deleted_under_five_hundred_queues(tmp_path: Path):
    disk = SlowDisk()
    async with running(tmp_path, disk, segment_bytes=64 * 1024) as served:
        broker = served.broker
        broker.store.append([a_message("many", queue_id) for queue_id in range(500)], broker.context.wall_ms())
        for _ in range(100):
            broker.store.append([a_message("orders", body=bytes(8_000))], broker.context.wall_ms())
        await start_threads(broker)
        assert len(broker.store.log.segments.starts) > 10
        disk.used = 95.0
        async with measured_pauses() as pauses:
            await broker.context.remove_expired_files()
        disk.used = 10.0
        assert broker.store.log.start >= 10 * 64 * 1024
        assert all(queue.min_offset == 1 for key, queue in broker.store.queues if key.topic == "many")
        pauses.check()


async def test_the_first_messages_of_queues_come_while_syncs_are_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path) as served:
        broker = served.broker
        broker.topics.put(TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8))
        await served.send("others", b"x")
        await start_threads(broker)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, sync_slowly)
        async with measured_pauses() as pauses:
            for queue_id in range(8):
                assert (await served.send("orders", b"x", queue_id=queue_id)).code == 0
        monkeypatch.undo()
        pauses.check()


async def test_a_topic_of_fifty_queues_is_deleted_while_syncs_are_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with running(tmp_path) as served:
        broker = served.broker
        broker.topics.put(TopicConfig(topic_name="orders", read_queue_nums=50, write_queue_nums=50))
        broker.store.append([a_message("orders", queue_id) for queue_id in range(50)], broker.context.wall_ms())
        await start_threads(broker)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, sync_slowly)
        async with measured_pauses() as pauses:
            header = DeleteTopicRequestHeader(topic="orders")
            assert (await served.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header)).code == 0
        monkeypatch.undo()
        assert not (tmp_path / "store/consumequeue/orders").exists()
        pauses.check()


class SlowTimerDisk(Disk):
    """A disk that takes long for the files of timers, where it syncs or removes them."""

    def create(self, path: str, size: int, allocated: int, *, durable: bool = True) -> File:
        if durable:
            self._take_long(path)
        return super().create(path, size, allocated, durable=durable)

    def replace(self, path: str, data: bytes) -> None:
        self._take_long(path)
        super().replace(path, data)

    def remove(self, path: str) -> None:
        self._take_long(path)
        super().remove(path)

    def _take_long(self, path: str) -> None:
        if "/timer" in path:
            time.sleep(SLOW_S)


class BusyDisk(Disk):
    """A disk that takes long to say how full it is."""

    def used_percent(self, path: str) -> float:
        time.sleep(SLOW_S)
        return super().used_percent(path)


async def test_administrators_ask_all_at_once_while_the_disk_is_busy(tmp_path: Path):
    async with running(tmp_path, BusyDisk()) as served:
        broker = served.broker
        await served.send("orders", b"x")
        await start_threads(broker)
        async with measured_pauses() as pauses:
            for _ in range(2):  # the second time, the disk was measured a moment ago
                answers = await asyncio.gather(*[served.ask(RequestCode.GET_BROKER_RUNTIME_INFO) for _ in range(200)])
                assert {answer.code for answer in answers} == {0}
        pauses.check()


async def test_the_files_of_timers_are_made_and_rebuilt_while_the_disk_is_slow(tmp_path: Path):
    async with running(tmp_path, SlowTimerDisk(), timer_log_file_bytes=1024 * 1024) as served:
        broker = served.broker
        await served.send("orders", b"x")
        await start_threads(broker)
        delivery = broker._timers.delivery

        async def deliver(body: bytes, offset: int) -> None:
            due_ms = str(broker.context.machine_ms() + 300)
            timed = {"TIMER_DELIVER_MS": due_ms, "UNIQ_KEY": body.decode()}
            assert (await served.send("orders", body, properties=timed)).code == 0
            async with asyncio.timeout(WAIT_S_MAX):
                while body not in [record.body for record in records(await served.pull("orders", offset))]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

        async with measured_pauses() as pauses:
            await deliver(b"first", 1)
            delivery._report_damage("as this test says")
            await deliver(b"second", 1)
        assert not delivery._read_again
        pauses.check()


def sync_slowly(descriptor: int) -> None:
    """Take long instead of syncing. The files of the tables are left out: `test_persistence` is about them."""
    if "/config" not in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
        time.sleep(SLOW_S)


async def start_threads(broker: Broker) -> None:
    """Start the threads that the broker uses: on a busy machine, the start of a thread takes a while."""
    await asyncio.gather(*[asyncio.to_thread(time.sleep, 0.01) for _ in range(8)])
    await broker._flusher.wait_flushed(broker.store.log.end)
