"""`skyrocket run --replicas 3` as a user runs it: kill -9 of the node that leads, roles and terms, a transfer, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import Message
from skyrocket.client.errors import ClientError
from skyrocket.client.sync import Producer
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketProcess, cluster_info
from tests.support.waiting import wait_until

SETS = [part for key, value in SMALL_STORE.items() for part in ("--set", f"{key}={value}")]
_BESIDE = (-2, 1, 3, 8, 10, 11, 13, 18, 20, 21, 23)


class LocalGroup(SkyrocketProcess):
    def __init__(self, home: Path) -> None:
        names_port, self.port = free_port(), free_port(*_BESIDE)
        self.nameserver = f"127.0.0.1:{names_port}"
        self.data = home / "data"
        flags = ["--replicas", "3", "--data", str(self.data), "--namesrv-port", str(names_port), "--port", str(self.port)]
        super().__init__("run", home, ["run", *flags, *SETS], lambda: set(self.addresses()) == {0, *self._slaves()})

    def addresses(self) -> dict[int, str]:
        """The brokers of the group that are registered, by their ids."""
        info = cluster_info(self.nameserver)
        brokers = (info.broker_addr_table if info is not None else None) or {}
        return dict((brokers["broker-a"].broker_addrs or {}) if "broker-a" in brokers else {})

    def _slaves(self) -> set[int]:
        leader = self.leader()
        return {1, 2, 3} - ({leader + 1} if leader is not None else set())

    def leader(self) -> int | None:
        """The number of the node that is the master."""
        address = self.addresses().get(0)
        return None if address is None else (int(address.rpartition(":")[2]) - self.port) // 10

    def pid_of(self, node: str) -> int:
        assert self.process is not None
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            if f"dLegerSelfId={node}" in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                return int(child)
        raise AssertionError(f"{node} does not run:\n{self.log_tail()}")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[LocalGroup]:
    with LocalGroup(tmp_path) as started:
        yield started


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skyrocket", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def send(producer: Producer, body: bytes, group: LocalGroup) -> None:
    def is_sent() -> bool:
        try:
            producer.send(Message("orders", body))
        except ClientError:
            return False
        return True

    wait_until(is_sent, group.log_tail)


def test_a_group_on_one_machine_goes_on_without_its_leader_and_can_be_asked(group: LocalGroup):
    with Producer(nameservers=group.nameserver, group="P") as producer:
        send(producer, b"before", group)
        leader = group.leader()
        assert leader is not None
        os.kill(group.pid_of(f"n{leader}"), signal.SIGKILL)
        send(producer, b"after", group)
    wait_until(lambda: len(group.addresses()) == 3 and 0 in group.addresses(), group.log_tail)  # it was started again
    shown = command("cluster", "show", "-n", group.nameserver, "--json")
    states = json.loads(shown.stdout)
    assert sorted(state["node"] for state in states) == ["n0", "n1", "n2"], shown
    assert [state["nodeRole"] for state in states if state["brokerId"] == 0] == ["LEADER"]
    assert states[0]["term"] >= 1
    assert "follower, term" in command("cluster", "show", "-n", group.nameserver).stdout
    other = next(state["node"] for state in states if state["nodeRole"] == "FOLLOWER")
    moved = command("cluster", "transfer-leader", "-n", group.nameserver, "broker-a", other)
    assert moved.returncode == 0, moved.stderr
    wait_until(lambda: group.leader() == int(other[1:]), group.log_tail)
    wrong = command("cluster", "transfer-leader", "-n", group.nameserver, "broker-a", "n7")
    assert wrong.returncode != 0
    assert "Group of broker broker-a has no node 'n7', but n0, n1, n2." in wrong.stderr
    group.stop()
    assert not group.first_trace()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--replicas", "4"], "--replicas 4 is not one of (3, 5, 7, 9)"),
        (["--replicas", "3", "--brokers", "2"], "--brokers and --replicas do not go together"),
        (["--replicas", "3", "--port", "0"], "--port 0 leaves no ports for --replicas 3"),
        (["--replicas", "3", "--set", "dLegerSelfId=n1"], "--set dLegerSelfId=n1 does not go with --replicas 3"),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_one_sentence(tmp_path: Path, flags: list[str], sentence: str):
    refused = command("run", "--data", str(tmp_path / "data"), *flags)
    assert refused.returncode == 2
    assert sentence in refused.stderr


def test_directories_of_groups_and_of_single_brokers_are_told_apart(tmp_path: Path):
    for node in ("n0", "n1", "n2"):
        (tmp_path / "group" / node).mkdir(parents=True)
    refused = command("run", "--data", str(tmp_path))
    assert "has a group of 3 nodes. Start it with --replicas 3" in refused.stderr
    (tmp_path / "single" / "store").mkdir(parents=True)
    refused = command("run", "--data", str(tmp_path / "single"), "--replicas", "3")
    assert "has the store of a broker without replicas" in refused.stderr
