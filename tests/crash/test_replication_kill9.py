"""A master and a slave are killed with SIGKILL under load: the logs become equal again, and nothing that a SYNC_MASTER has
acknowledged is missing at its slave, which takes over.

SKYROCKET_REPLICATION_KILLS sets how often one of a pair is killed (4), SKYROCKET_TAKE_OVERS how often a slave takes over (2).
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import failover_report
from tests.support.ports import free_port
from tests.support.processes.replication import MasterLoad, are_equal, explain, numbers_in
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("SKYROCKET_REPLICATION_KILLS", "4"))
TAKE_OVERS = int(os.environ.get("SKYROCKET_TAKE_OVERS", "2"))
SEGMENT = 4 * 1024 * 1024


class Member:
    """A broker of the pair: its directory and its port, whatever its role is."""

    def __init__(self, home: Path, names: str, **settings: object) -> None:
        self.home = home
        self.store = home / "store"
        self.port = free_port(-2, 1)
        self._names = names
        self._settings = {"brokerName": "pair", "mappedFileSizeCommitLog": SEGMENT, "listenPort": self.port, **settings}
        self._lives = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def as_master(self, role: str) -> SkyrocketBroker:
        return self._start({"brokerRole": role, "brokerId": 0})

    def as_slave_of(self, master: Member) -> SkyrocketBroker:
        return self._start({"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": f"127.0.0.1:{master.port + 1}"})

    def _start(self, role: dict[str, object]) -> SkyrocketBroker:
        self._lives += 1
        return SkyrocketBroker(self.home / f"life{self._lives}", self._names, {**self._settings, **role}, self.store)


@pytest.fixture
def names(tmp_path: Path) -> Iterator[str]:
    with SkyrocketNameserver(tmp_path / "names") as server:
        yield server.nameserver


def wait_equal(one: Member, other: Member) -> None:
    wait_until(lambda: are_equal(one.store, other.store), lambda: f"the logs differ: {explain(one.store, other.store)}")


def test_a_pair_of_which_one_is_killed_again_and_again_becomes_equal(tmp_path, names):
    first, second, chance = Member(tmp_path / "a", names), Member(tmp_path / "b", names), random.Random(5)
    with first.as_master("ASYNC_MASTER") as master, second.as_slave_of(first) as slave:
        load = MasterLoad(first.address)
        with load.running():
            for _ in range(KILLS):
                time.sleep(chance.uniform(0.05, 0.8))
                killed = chance.choice((master, slave))
                killed.kill()
                time.sleep(chance.uniform(0, 0.3))
                killed.start()
        wait_equal(first, second)
        assert len(load.acknowledged) > 10 * KILLS
        assert load.acknowledged <= numbers_in(second.store)
        assert master.complaints() == slave.complaints() == []
    assert not (second.store / "diverged").exists(), "a master that is killed keeps what its slave has got"


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_slave_that_takes_over_has_everything_that_the_sync_master_has_acknowledged(tmp_path, names, flush):
    chance = random.Random(flush)
    settings = {"flushDiskType": flush, "slaveTimeout": 10_000}
    master, slave = Member(tmp_path / "a", names, **settings), Member(tmp_path / "b", names, **settings)
    acknowledged: set[bytes] = set()
    for number in range(TAKE_OVERS):
        with master.as_master("SYNC_MASTER") as leading, slave.as_slave_of(master) as following:
            load = MasterLoad(master.address, seed=number, senders=16)
            with load.running():
                wait_until(lambda load=load: bool(load.acknowledged), "the pair has not found each other", every_s=0.01)
                time.sleep(chance.uniform(0, 0.7))
                leading.kill()
            acknowledged |= load.acknowledged
            following.kill()
        assert acknowledged <= numbers_in(slave.store), "the slave misses what was acknowledged"
        master, slave = slave, master
    with master.as_master("SYNC_MASTER"), slave.as_slave_of(master):
        asyncio.run(MasterLoad(master.address, seed=TAKE_OVERS).run_for(messages=10))
        wait_equal(master, slave)
        assert acknowledged <= numbers_in(slave.store)
    text = f"{len(acknowledged)} acknowledged, none missing at the slave that took over"
    failover_report.add(f"SYNC_MASTER, {flush}, killed at {TAKE_OVERS} points", text)
