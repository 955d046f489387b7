from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from skyrocket.broker.persistence import Persistence
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.subscription_groups import SubscriptionGroupTable
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.store.config_files import ConfigFiles
from skyrocket.store.errors import StoreError
from skyrocket.store.files import Disk, Files
from tests.support.simulated_disk import SimulatedDisk


class Tables:
    def __init__(self, files: Files, directory: str = "store/config") -> None:
        self.topics = TopicTable(BrokerSettings, lambda: 5_000)
        self.groups = SubscriptionGroupTable(BrokerSettings, lambda: 5_000)
        self.offsets = ConsumerOffsets(lambda: 5_000)
        self.persistence = Persistence(ConfigFiles(files, directory), self.topics, self.groups, self.offsets)
        self.problems = self.persistence.load()


def test_change_of_topics_or_groups_is_saved_at_once():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.topics.put(TopicConfig(topic_name="orders"))
    tables.groups.for_consumer("billing")
    after_crash = Tables(disk.copy())
    assert "orders" in after_crash.topics
    assert "billing" in after_crash.groups
    assert after_crash.topics.version == tables.topics.version
    assert after_crash.problems == []


def test_offsets_are_saved_only_if_they_changed():
    disk = SimulatedDisk()
    tables = Tables(disk)
    assert tables.persistence.begin_save() is None
    tables.offsets.commit("billing", "orders", 0, 7)
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == -1
    job = tables.persistence.begin_save()
    assert job is not None
    tables.offsets.commit("billing", "orders", 0, 8)
    job()
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == 7
    tables.persistence.save_all()
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == 8
    assert tables.persistence.begin_save() is None


def test_topic_that_cannot_be_saved_is_an_error():
    disk = SimulatedDisk()
    tables = Tables(disk)
    disk.fail("replace", number=errno.ENOSPC, lasting=True)
    with pytest.raises(StoreError):
        tables.topics.put(TopicConfig(topic_name="orders"))


def test_damaged_file_is_reported_and_its_backup_is_loaded():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.topics.put(TopicConfig(topic_name="orders"))
    tables.topics.put(TopicConfig(topic_name="returns"))
    disk.write_file("store/config/topics.json", b"{ half")
    again = Tables(disk)
    assert len(again.problems) == 1
    assert "orders" in again.topics
    assert "returns" not in again.topics


async def test_offsets_are_saved_periodically_and_at_close(tmp_path: Path):
    tables = Tables(Disk(), str(tmp_path))
    tables.persistence.start(lambda: 5)
    tables.offsets.commit("billing", "orders", 0, 7)
    for _ in range(400):
        await asyncio.sleep(0.005)
        if Tables(Disk(), str(tmp_path)).offsets.query("billing", "orders", 0) == 7:
            break
    else:
        pytest.fail("the offsets were not saved")
    tables.offsets.commit("billing", "orders", 0, 9)
    await tables.persistence.close()
    assert Tables(Disk(), str(tmp_path)).offsets.query("billing", "orders", 0) == 9
