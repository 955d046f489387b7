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
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from skyrocket.store.config_files import ConfigFiles
from skyrocket.store.errors import StoreError
from skyrocket.store.files import Disk, Files
from tests.support.stores.simulated_disk import SimulatedDisk


class Tables:
    def __init__(self, files: Files, directory: str = "store/config") -> None:
        self.topics = TopicTable(BrokerSettings, lambda: 5_000)
        self.groups = SubscriptionGroupTable(BrokerSettings, lambda: 5_000)
        self.offsets = ConsumerOffsets(lambda: 5_000)
        self.persistence = Persistence(ConfigFiles(files, directory), self.topics, self.groups, self.offsets)
        self.problems = self.persistence.load()


async def test_changes_of_topics_and_groups_are_on_disk_when_a_save_was_waited_for():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.persistence.start(lambda: 5_000)
    tables.topics.put(TopicConfig(topic_name="orders"))
    tables.topics.stage_put([TopicConfig(topic_name="returns")])
    tables.groups.for_consumer("billing")
    tables.groups.forbid("billing", "orders", forbidden=True)
    await tables.persistence.saver.wait_until_saved()
    after_crash = Tables(disk.copy())
    assert {"orders", "returns"} <= set(after_crash.topics)
    assert after_crash.groups.is_forbidden("billing", "orders")
    assert after_crash.topics.configs == tables.topics.configs
    assert after_crash.groups.configs == tables.groups.configs
    assert after_crash.groups.version == tables.groups.version
    assert after_crash.problems == []
    await tables.persistence.close()
    assert Tables(disk.copy()).topics.version == tables.topics.version


async def test_deleted_topics_and_groups_are_gone_after_a_restart():
    disk = SimulatedDisk()
    tables = Tables(disk)
    for name in ("a", "b"):
        tables.topics.put(TopicConfig(topic_name=name))
        tables.groups.put(SubscriptionGroupConfig(group_name=name))
        tables.groups.forbid(name, "orders", forbidden=True)
    await tables.persistence.close()
    again = Tables(disk)
    again.topics.delete("a")
    again.groups.delete("a")
    await again.persistence.close()
    last = Tables(disk)
    assert ("a" in last.topics, "b" in last.topics) == (False, True)
    assert ("a" in last.groups, "b" in last.groups) == (False, True)
    assert (last.groups.is_forbidden("a", "orders"), last.groups.is_forbidden("b", "orders")) == (False, True)


async def test_failed_save_is_repeated():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.persistence.start(lambda: 5_000)
    disk.fail("replace", number=errno.ENOSPC, lasting=True)
    tables.groups.for_consumer("billing")
    tables.offsets.commit("billing", "orders", 0, 7)
    with pytest.raises(StoreError):
        await tables.persistence.saver.wait_until_saved()
    with pytest.raises(StoreError):
        await tables.persistence._save_progress()
    disk.heal()
    await tables.persistence.close()
    after = Tables(disk)
    assert "billing" in after.groups
    assert after.offsets.query("billing", "orders", 0) == 7


async def test_unchanged_offsets_are_not_written():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.offsets.commit("billing", "orders", 0, 7)
    await tables.persistence._save_progress()
    written = disk.counts["replace"]
    await tables.persistence._save_progress()
    assert disk.counts["replace"] == written
    tables.offsets.commit("billing", "orders", 0, 8)
    await tables.persistence._save_progress()
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == 8


async def test_offsets_that_somebody_waits_for_are_on_disk_whoever_saves_meanwhile():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.offsets.commit("billing", "orders", 0, 7)
    first = asyncio.ensure_future(tables.persistence.progress_saved())
    await asyncio.sleep(0)
    tables.offsets.reset("billing", "orders", 0, 3)
    before = disk.counts["replace"]
    await asyncio.gather(*(tables.persistence.progress_saved() for _ in range(50)))
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == 3
    assert disk.counts["replace"] - before <= 4, "a save is shared, not repeated for each who waits"
    await first


async def test_offsets_that_cannot_be_saved_are_an_error_and_saved_later():
    disk = SimulatedDisk()
    tables = Tables(disk)
    disk.fail("replace", number=errno.ENOSPC, lasting=True)
    tables.offsets.reset("billing", "orders", 0, 3)
    with pytest.raises(StoreError):
        await tables.persistence.progress_saved()
    disk.heal()
    await tables.persistence.progress_saved()
    assert Tables(disk.copy()).offsets.query("billing", "orders", 0) == 3


async def test_damaged_file_is_reported_and_its_backup_is_loaded():
    disk = SimulatedDisk()
    tables = Tables(disk)
    tables.persistence.start(lambda: 5_000)
    tables.topics.put(TopicConfig(topic_name="orders"))
    await tables.persistence.saver.wait_until_saved()
    tables.topics.put(TopicConfig(topic_name="returns"))
    await tables.persistence.close()
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
