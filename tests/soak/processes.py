"""The servers of a soak: a nameserver and two brokers, as processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from skyrocket.client import Admin, ClientError
from tests.soak.faulty_disk import HEALTHY, DiskControl
from tests.soak.loop_probe import read_pauses
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketNameserver, SkyrocketProcess, registered
from tests.support.waiting import WAIT_S_MAX

BROKERS = ("broker-a", "broker-b")
SETTINGS = {
    **SMALL_STORE,
    "flushDiskType": "SYNC_FLUSH",
    "autoCreateTopicEnable": "false",  # only the soak creates topics: one that comes back is a mistake
    "flushConsumerOffsetInterval": 1_000,
    "registerNameServerPeriod": 10_000,
    "transactionTimeOut": 2_000,
    "transactionCheckInterval": 2_000,
    "transactionCheckMax": 1_000,  # after a kill, a producer is known again with its next heartbeat, within 30 s
    "connectionsPerAddressMax": 2_000,
}


async def are_all_there(admin: Admin) -> bool:
    """Whether the nameserver knows all brokers: an administrator's commands go to those that it knows."""
    return len(await admin.cluster.brokers()) == len(BROKERS)


async def read_starts(admin: Admin) -> dict[str, str] | None:
    """Return when each broker started; None while one is away. If that is the same later, no broker was away."""
    try:
        return {name: (await admin.cluster.runtime(name))["bootTimestamp"] for name in BROKERS}
    except ClientError:
        return None


async def wait_for_brokers(admin: Admin) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not await are_all_there(admin):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


class SoakBroker(SkyrocketProcess):
    """A broker whose disk can be made full or slow, and whose loop is watched."""

    module = "tests.soak.broker_process"

    def __init__(self, home: Path, name: str, nameserver: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.broker_name = name
        self.address = f"127.0.0.1:{free_port(-2, 1)}"
        self.store = home / "store"
        self.disk = DiskControl(home / "disk")
        self._pauses = home / "pauses.jsonl"
        given = {
            **SETTINGS,
            "brokerName": name,
            "listenPort": self.address.rpartition(":")[2],
            "namesrvAddr": nameserver,
            "storePathRootDir": self.store,
        }
        texts = [f"{key}={value}" for key, value in given.items()]
        arguments = [str(home / "disk"), str(self._pauses), *texts]
        super().__init__(name, home, arguments, lambda: self.address in registered(nameserver))

    def pauses(self) -> list[dict[str, Any]]:
        return read_pauses(self._pauses)


class Servers:
    """All servers. `ended` lists those that ended without being told to."""

    def __init__(self, home: Path) -> None:
        self.names = SkyrocketNameserver(home / "names")
        self.brokers: list[SoakBroker] = []
        try:
            for name in BROKERS:
                self.brokers.append(SoakBroker(home / name, name, self.names.nameserver))
        except BaseException:
            self.kill()
            raise

    @property
    def nameserver(self) -> str:
        return self.names.nameserver

    @property
    def all(self) -> list[SkyrocketProcess]:
        return [self.names, *self.brokers]

    def ended(self) -> list[str]:
        found = []
        for each in self.all:
            assert each.process is not None
            if each.process.poll() is not None:
                found.append(f"{each.name} ended by itself with {each.process.returncode}: {each.log_tail(15)}")
        return found

    def heal(self) -> None:
        """Give every broker a healthy disk."""
        for broker in self.brokers:
            broker.disk.set(HEALTHY)

    def kill(self) -> None:
        for each in self.all:
            each.__exit__(None, None, None)
