"""A slave finds its master at the nameserver and copies its tables."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skyrocket.broker.broker import Broker
from skyrocket.broker.replication.metadata_sync import MetadataSync
from skyrocket.broker.replication.roles import BrokerRole
from skyrocket.nameserver.nameserver import Nameserver
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.protocol.bodies import (
    DelayOffsetSerializeWrapper,
    HARuntimeInfo,
    Metric,
    SubscriptionGroupConfig,
    TimerMetricsSerializeWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.headers import DeleteTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.store.config_files import DELAY_OFFSETS, ConfigFiles
from skyrocket.store.timers.timer_checkpoint import TimerCheckpointFile
from tests.support.brokers.running_broker import RunningBroker, records, running
from tests.support.waiting import WAIT_S_MAX


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Pair:
    def __init__(self, nameserver: Nameserver, master: RunningBroker, slave: RunningBroker) -> None:
        self.nameserver = nameserver
        self.master = master
        self.slave = slave

    async def sync(self) -> None:
        """Until the slave has copied everything once more."""
        sync = slave_sync(self.slave.broker)
        await eventually(lambda: sync.rounds > 0)  # it has found its master
        began = sync.rounds
        sync._master_changed.set()
        await eventually(lambda: sync.rounds >= began + 2)


def slave_sync(broker: Broker) -> MetadataSync:
    [work] = [work for work in broker.roles._work[True] if isinstance(work, MetadataSync)]
    return work


@asynccontextmanager
async def a_pair(tmp_path: Path, slave_files: Path | None = None, **changes: Any) -> AsyncIterator[Pair]:
    nameserver = Nameserver(NameserverSettings().with_texts({"listenPort": "0", "kvConfigPath": str(tmp_path / "kv.json")}))
    await nameserver.start()
    address = f"127.0.0.1:{nameserver.port}"
    slave_changes = {"role": BrokerRole.SLAVE, "broker_id": 1, "slave_read": True, "namesrv_addr": address} | changes
    try:
        async with running(tmp_path / "master", namesrv_addr=address) as master:
            if slave_files is not None:
                shutil.copytree(slave_files, tmp_path / "slave" / "store")
            async with running(tmp_path / "slave", **slave_changes) as slave:
                slave_sync(slave.broker)._sync_ms = 50
                yield Pair(nameserver, master, slave)
    finally:
        await nameserver.close()


async def test_slave_learns_both_addresses_of_its_master(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        master = pair.master.broker.settings()
        known = pair.slave.broker.known_master
        assert known.address == master.address
        assert known.ha_address is not None
        await pair.master.broker.close()
        registration = pair.slave.broker._registration
        assert registration is not None
        await registration.register()
        assert known.address is None  # the master has unregistered
        assert known.ha_address is not None


async def test_slave_copies_topics_groups_and_progress(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        master, slave = pair.master.broker, pair.slave.broker
        master.topics.put(TopicConfig(topic_name="orders", read_queue_nums=3, write_queue_nums=3, perm=6))
        master.topics.put(TopicConfig(topic_name="short-lived", read_queue_nums=1, write_queue_nums=1, perm=6))
        master.groups.put(SubscriptionGroupConfig(group_name="billing", retry_max_times=7))
        master.groups.forbid("billing", "orders", forbidden=True)
        master.offsets.commit("billing", "orders", 2, 41)
        master._delay_progress.load(DelayOffsetSerializeWrapper(offset_table={3: 9}))
        counts = {"orders": Metric(count=4, time_stamp=5)}
        master._timer_metrics.load(
            TimerMetricsSerializeWrapper(timing_count=counts, data_version=replace_version(slave._timer_metrics.version))
        )
        await pair.sync()
        assert slave.topics.get("orders") == master.topics.get("orders")
        assert slave.topics.version == master.topics.version
        assert slave.groups.require("billing").retry_max_times == 7
        assert slave.groups.is_forbidden("billing", "orders")
        assert slave.offsets.query("billing", "orders", 2) == 41
        assert slave._delay_progress.delivered_offsets()[3] == 9
        assert slave._timer_metrics.snapshot().timing_count == counts
        master.topics.delete("short-lived")
        await pair.sync()
        assert "short-lived" not in slave.topics
        await slave.persistence.close()
        saved = ConfigFiles(slave.files, slave.store.paths.config).load(DELAY_OFFSETS).body
        assert saved is not None
        assert saved.offset_table[3] == 9
    async with running(tmp_path / "slave") as restarted:  # all of it was saved
        assert restarted.broker.topics.require("orders").read_queue_nums == 3
        assert "short-lived" not in restarted.broker.topics
        assert restarted.broker.groups.require("billing").retry_max_times == 7
        assert restarted.broker.offsets.query("billing", "orders", 2) == 41


def replace_version(version: Any) -> Any:
    return version.next(0, version.timestamp)


async def test_table_that_has_not_changed_is_not_replaced(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        await pair.sync()
        before = pair.slave.broker.topics.configs
        notices: list[None] = []
        pair.slave.broker.topics.on_change.append(lambda: notices.append(None))
        await pair.sync()
        assert notices == []
        assert pair.slave.broker.topics.configs == before


async def test_table_that_came_with_the_version_of_the_next_one_is_repaired(tmp_path: Path):
    """Apache's master may send a table that a change has made old, with the version of that change."""
    async with a_pair(tmp_path) as pair:
        await pair.sync()
        master, slave = pair.master.broker, pair.slave.broker
        before = dict(master.topics.configs)
        master.topics.put(TopicConfig(topic_name="orders", read_queue_nums=3, write_queue_nums=3, perm=6))
        slave.topics.follow(TopicConfigSerializeWrapper(topic_config_table=before, data_version=master.topics.version))
        await pair.sync()
        assert "orders" in slave.topics


async def test_large_tables_come_in_pages(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        names = [f"t{number}" for number in range(4_500)]
        pair.master.broker.topics.put_all(
            [TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in names]
        )
        pair.master.broker.groups.put_all([SubscriptionGroupConfig(group_name=name) for name in names])
        await pair.sync()
        assert set(names) <= set(pair.slave.broker.topics)
        assert set(names) <= set(pair.slave.broker.groups)
        assert len(pair.slave.broker.topics) == len(pair.master.broker.topics)


async def test_progress_waits_for_the_log_that_it_speaks_of(tmp_path: Path):
    async with a_pair(tmp_path, ha_master_address="127.0.0.1:1") as pair:  # where no log is
        slave_sync(pair.slave.broker)._is_copying = lambda: True
        await pair.master.send("orders", b"not at the slave yet")
        pair.master.broker.offsets.commit("billing", "orders", 0, 1)
        await pair.sync()
        slave = pair.slave.broker
        assert "orders" in slave.topics  # a topic can be read as soon as messages of it arrive
        assert slave.offsets.query("billing", "orders", 0) == -1
        status = decode((await pair.master.ask(RequestCode.GET_BROKER_HA_STATUS)).body, HARuntimeInfo)
        assert status.master
        assert status.master_commit_log_max_offset == pair.master.broker.store.horizon.appended > 0


async def test_slave_keeps_serving_while_its_master_is_away(tmp_path: Path):
    async with running(tmp_path / "before") as served:
        for number in range(3):
            await served.send("orders", b"%d" % number)
    shutil.copytree(tmp_path / "before" / "store", tmp_path / "master" / "store")
    async with a_pair(tmp_path, slave_files=tmp_path / "before" / "store") as pair:
        await pair.sync()
        beyond = await pair.slave.pull("orders", 9, hold_ms=60_000)
        assert (beyond.code, beyond.remark, beyond.fields["nextBeginOffset"]) == (20, "OFFSET_OVERFLOW_BADLY", "9")
        await pair.master.broker.close()
        registration = pair.slave.broker._registration
        assert registration is not None
        await registration.register()
        assert [record.body for record in records(await pair.slave.pull("orders", 0))] == [b"0", b"1", b"2"]
        waiting = await pair.slave.pull("orders", 9, hold_ms=200)
        assert (waiting.code, waiting.fields["nextBeginOffset"]) == (19, "9")  # after the hold: nobody is moved


async def test_timers_that_the_master_delivered_are_not_delivered_by_its_slave(tmp_path: Path):
    """The slave has the master's log. It becomes master, and delivers only what is not delivered yet."""
    async with running(tmp_path / "before") as served:
        await served.send("orders", b"soon", properties={"TIMER_DELAY_MS": "1000"})
        await served.send("orders", b"later", properties={"TIMER_DELAY_SEC": "6"})
        await served.wait_for_bodies("orders", 1)
        timers, delivered_ms = served.broker._timers, served.broker._wall_ms()
        assert timers is not None
        await eventually(lambda: timers.delivery._index.read_ms > delivered_ms)  # the slot of the first one is over
    before = tmp_path / "before" / "store"
    shutil.copytree(before, tmp_path / "master" / "store")
    for gone in ("timerlog", "timerwheel", "config/timercheck", "config/timermetrics"):  # a slave has none
        path = before / gone
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    async with a_pair(tmp_path, slave_files=before) as pair:
        await pair.sync()
        slave = pair.slave.broker
        saved = TimerCheckpointFile(slave.files, slave.store.paths.timer_checkpoint).read()
        assert saved is not None
        assert saved.known_until == 2
        await pair.master.broker.close()
        await slave.roles.change(BrokerRole.ASYNC_MASTER, 0)
        assert await pair.slave.wait_for_bodies("orders", 2) == [b"soon", b"later"]
        assert slave._timer_metrics.snapshot().timing_count["orders"].count == 0


async def test_failure_is_logged_once_and_the_slave_tries_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    async with a_pair(tmp_path) as pair:
        await pair.sync()
        sync = slave_sync(pair.slave.broker)
        pair.slave.broker.known_master.learn("127.0.0.1:1", None)
        failed = sync.rounds + 4
        await eventually(lambda: sync.rounds >= failed)
        lines = [line for line in caplog.messages if "The topics of the master could not be copied" in line]
        assert len(lines) == 1
        pair.slave.broker.known_master.learn(pair.master.address, None)
        pair.master.broker.offsets.commit("billing", "orders", 2, 41)
        await eventually(lambda: pair.slave.broker.offsets.query("billing", "orders", 2) == 41)


async def test_slave_takes_no_tables_of_a_master_that_lost_its_disk(tmp_path: Path):
    async with running(tmp_path / "before") as served:
        await served.send("orders", b"kept")
        served.broker.offsets.commit("billing", "orders", 0, 1)
    async with a_pair(tmp_path, slave_files=tmp_path / "before" / "store") as pair:
        slave = pair.slave.broker
        assert slave.known_master.address == pair.master.address
        await asyncio.sleep(0.5)
        assert slave_sync(slave).rounds == 0
        assert [record.body for record in records(await pair.slave.pull("orders", 0))] == [b"kept"]
        assert slave.offsets.query("billing", "orders", 0) == 1


async def test_queues_of_a_deleted_topic_go_unless_the_topic_exists_again(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        master, slave = pair.master.broker, pair.slave.broker
        for topic in ("gone", "again"):
            await pair.master.send(topic, b"old")
        await eventually(lambda: slave.store.log.end == master.store.log.end)
        await pair.sync()
        await slave_sync(slave).stop()
        end = master.store.log.end
        await pair.master.send("again", b"new")  # after the master was asked for its topics, which did not have this one
        await eventually(lambda: slave.store.log.end == master.store.log.end)
        for topic in ("gone", "again"):
            slave.topics.delete(topic)
        sync = slave_sync(slave)
        sync._gone_topics = {"gone": end, "again": end}
        await sync._delete_queues()
        assert slave.store.queues.get("gone", 0) is None
        assert slave.store.queues.get("again", 0) is not None


async def test_topic_that_is_deleted_and_created_again_between_two_copies_begins_anew(tmp_path: Path):
    async with a_pair(tmp_path) as pair:
        master, slave = pair.master.broker, pair.slave.broker
        for number in range(3):
            await pair.master.send("orders", b"old %d" % number)
        master.offsets.commit("billing", "orders", 0, 3)
        await eventually(lambda: slave.store.log.end == master.store.log.end)
        await pair.sync()
        assert slave.offsets.query("billing", "orders", 0) == 3
        await slave_sync(slave).stop()
        await pair.master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="orders"))
        for number in range(2):
            await pair.master.send("orders", b"new %d" % number)
        await eventually(lambda: slave.store.log.end == master.store.log.end)
        slave_sync(slave).start()
        await pair.sync()
        assert await pair.slave.wait_for_bodies("orders", 2) == [b"new 0", b"new 1"]
        assert slave.offsets.query("billing", "orders", 0) == -1
        await pair.master.send("orders", b"new 2")
        assert await pair.slave.wait_for_bodies("orders", 3) == [b"new 0", b"new 1", b"new 2"]
    async with running(tmp_path / "slave") as restarted:
        assert await restarted.wait_for_bodies("orders", 3) == [b"new 0", b"new 1", b"new 2"]
