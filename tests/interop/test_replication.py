"""Mixed pairs: our slave of Apache's master, and Apache's slave of our master. Their logs become the same, byte for byte."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.cluster import ApacheCluster
from tests.support.ports import free_port
from tests.support.processes.replication import MasterLoad, are_equal, explain, numbers_in
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

SEGMENT = 1024 * 1024
NAME = "pair"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path / "apache") as started:
        yield started


def settings_of(port: int, **more: object) -> dict[str, object]:
    return {
        **SMALL_STORE,
        "mappedFileSizeCommitLog": SEGMENT,
        "brokerClusterName": "Test",
        "brokerName": NAME,
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        **more,
    }


def slave_settings(port: int, master_port: int) -> dict[str, object]:
    return settings_of(port, brokerId=1, brokerRole="SLAVE", haMasterAddress=f"127.0.0.1:{master_port + 1}")


def load(address: str, messages: int, seed: int = 0) -> None:
    asyncio.run(MasterLoad(address, seed).run_for(messages=messages))


def pause() -> None:
    """Let any moment come: what happens next happens under load."""
    time.sleep(random.uniform(0.1, 1.0))


def wait_equal(master: Path, slave: Path) -> None:
    wait_until(lambda: are_equal(master, slave), lambda: f"the logs are not equal: {explain(master, slave)}", every_s=0.2)


def test_our_slave_copies_everything_from_apache_s_master(tmp_path, cluster):
    master_port, port = free_port(-2, 1), free_port(-2, 1)
    master_store, store = tmp_path / "master", tmp_path / "slave"
    settings = slave_settings(port, master_port)
    master = cluster.broker(master_store, settings_of(master_port))
    load(f"127.0.0.1:{master_port}", 300)  # several files, before the slave exists
    slave = SkyrocketBroker(tmp_path / "ours", cluster.nameserver, settings, store)
    with slave:
        wait_equal(master_store, store)
        assert len(numbers_in(store)) >= 300, "also the files before the last one, which Apache's slave does not get"
        under_load = MasterLoad(f"127.0.0.1:{master_port}", seed=1)
        with under_load.running():
            for _ in range(2):
                pause()
                slave.kill()
                pause()
                slave.start()
            pause()
            master.kill()
            master = cluster.broker(master_store, settings_of(master_port))
            pause()
        wait_equal(master_store, store)
        assert under_load.acknowledged <= numbers_in(store)
        assert slave.complaints() == []
        master.kill()
        slave.stop()
    promoted = SkyrocketBroker(tmp_path / "promoted", cluster.nameserver, settings_of(master_port), store)
    with promoted:
        before = numbers_in(store)
        load(promoted.address, 50, seed=4)
        assert len(numbers_in(store)) >= len(before) + 50


def test_our_slave_that_has_what_apache_s_master_has_not_becomes_equal(tmp_path, cluster):
    master_port, port = free_port(-2, 1), free_port(-2, 1)
    master_store, store = tmp_path / "master", tmp_path / "slave"
    master = cluster.broker(master_store, settings_of(master_port))
    load(f"127.0.0.1:{master_port}", 150)
    with SkyrocketBroker(tmp_path / "slave1", cluster.nameserver, slave_settings(port, master_port), store) as slave:
        wait_equal(master_store, store)
        slave.stop()
    master.stop()
    with SkyrocketBroker(tmp_path / "alone", cluster.nameserver, settings_of(port), store) as other:
        load(other.address, 100, seed=1)
        other.stop()
    master = cluster.broker(master_store, settings_of(master_port))
    load(f"127.0.0.1:{master_port}", 50, seed=2)
    with SkyrocketBroker(tmp_path / "slave2", cluster.nameserver, slave_settings(port, master_port), store) as slave:
        wait_equal(master_store, store)
        assert "differs from that of its master" in slave.log_tail()
        assert list((store / "diverged").iterdir())


def test_apache_s_slave_copies_everything_from_our_master(tmp_path, cluster):
    master_port, port = free_port(-2, 1), free_port(-2, 1)
    master_store, store = tmp_path / "master", tmp_path / "slave"
    settings = settings_of(port, brokerId=1, brokerRole="SLAVE")  # it hears from the nameserver where its master is
    with SkyrocketBroker(tmp_path / "ours", cluster.nameserver, settings_of(master_port), master_store) as master:
        load(master.address, 300)
        slave = cluster.broker(store, settings)
        wait_equal(master_store, store)
        under_load = MasterLoad(master.address, seed=1)
        with under_load.running():
            pause()
            slave.kill()
            pause()
            slave = cluster.broker(store, settings)
            for _ in range(2):
                pause()
                master.kill()
                pause()
                master.start()
            pause()
        wait_equal(master_store, store)
        assert under_load.acknowledged <= numbers_in(store)
        assert master.complaints() == []
        master.kill()
        slave.stop()
    promoted = cluster.broker(store, settings_of(port))
    before = numbers_in(store)
    load(f"127.0.0.1:{port}", 50, seed=5)
    assert len(numbers_in(store)) >= len(before) + 50
    promoted.stop()


def test_apache_s_slave_has_everything_that_our_sync_master_has_acknowledged(tmp_path, cluster):
    master_port, port = free_port(-2, 1), free_port(-2, 1)
    settings = settings_of(master_port, brokerRole="SYNC_MASTER", slaveTimeout=30_000)
    with SkyrocketBroker(tmp_path / "ours", cluster.nameserver, settings, tmp_path / "master") as master:
        slave = cluster.broker(tmp_path / "slave", settings_of(port, brokerId=1, brokerRole="SLAVE"))
        load = MasterLoad(master.address, timeout_ms=60_000)
        with load.running():
            wait_until(lambda: len(load.acknowledged) > 300, "Apache's slave does not acknowledge")
            master.kill()
        slave.kill()
    assert load.codes == {ResponseCode.SUCCESS}
    assert load.acknowledged <= numbers_in(tmp_path / "slave")


def test_our_slave_has_everything_that_apache_s_sync_master_has_acknowledged(tmp_path, cluster):
    master_port, port = free_port(-2, 1), free_port(-2, 1)
    settings = settings_of(master_port, brokerRole="SYNC_MASTER", inSyncReplicas=2)
    master = cluster.broker(tmp_path / "master", settings)
    with SkyrocketBroker(tmp_path / "ours", cluster.nameserver, slave_settings(port, master_port), tmp_path / "slave") as slave:
        load = MasterLoad(f"127.0.0.1:{master_port}")
        with load.running():
            wait_until(lambda: len(load.acknowledged) > 300, "Apache's master does not take the acknowledgements of our slave")
            master.kill()
        slave.kill()
    assert load.acknowledged <= numbers_in(tmp_path / "slave")
