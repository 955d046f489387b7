"""`skyrocket run --brokers 2` as a user runs it: topics on both brokers, kill -9 of one, Ctrl-C, and what it refuses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyrocket.client import Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.protocol.responses import ResponseCode
from tests.support.ports import free_port
from tests.support.processes.load import Wire, pull_request, records, send_request
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketProcess, registered
from tests.support.waiting import wait_until

SETS = [part for key, value in SMALL_STORE.items() for part in ("--set", f"{key}={value}")]


class LocalCluster(SkyrocketProcess):
    def __init__(self, home: Path, brokers: int = 2) -> None:
        self.data = home / "data"
        names_port, port = free_port(), _free_ports(brokers)
        self.nameserver = f"127.0.0.1:{names_port}"
        self.addresses = [f"127.0.0.1:{port + 10 * number}" for number in range(brokers)]
        flags = ["--brokers", str(brokers), "--data", str(self.data), "--namesrv-port", str(names_port), "--port", str(port)]
        super().__init__("run", home, ["run", *flags, *SETS], lambda: set(registered(self.nameserver)) == set(self.addresses))

    def broker_pids(self) -> dict[str, int]:
        """The processes of the brokers that run now, by their names."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {}
        for child in children:
            for word in _words(child):
                if word.startswith("brokerName="):
                    found[word.partition("=")[2]] = int(child)
        return found

    def log(self) -> str:
        return self.log_tail(1_000)


def _words(pid: str) -> list[str]:
    """The command line of a process; nothing of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _free_ports(brokers: int) -> int:
    return free_port(-2, *(10 * number + more for number in range(1, brokers) for more in (0, -2, 1)), 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path) as started:
        yield started


def send(address: str, body: bytes) -> None:
    with Wire(address) as wire:
        answer = wire.ask(send_request("orders", body))
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def bodies(address: str) -> list[bytes]:
    with Wire(address) as wire:
        answer = wire.ask(pull_request("orders", 0))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return [record.body for record in records(answer)]


def test_topics_are_on_every_broker(cluster: LocalCluster):
    command = [sys.executable, "-m", "skyrocket", "topic", "create", "by-command", "--namesrv", cluster.nameserver]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    with Producer(cluster.nameserver) as producer:
        for number in range(64):
            producer.send(Message("by-itself", b"%d" % number))
    with Admin(cluster.nameserver) as admin:
        for topic in ("by-command", "by-itself"):
            assert {broker.broker_name for broker in admin.topics.route(topic).brokers} == {"broker-a", "broker-b"}, topic
    cluster.stop()


def test_killed_broker_comes_back_with_its_messages_while_the_other_goes_on(cluster: LocalCluster):
    first, second = cluster.addresses
    send(first, b"at the first")
    send(second, b"at the second")
    before = cluster.broker_pids()
    os.kill(before["broker-b"], signal.SIGKILL)
    send(first, b"meanwhile")

    def is_back() -> bool:
        return cluster.broker_pids().get("broker-b", before["broker-b"]) != before["broker-b"] and second in registered(
            cluster.nameserver
        )

    wait_until(is_back, "broker-b starts again")
    assert cluster.broker_pids()["broker-a"] == before["broker-a"]
    assert bodies(second) == [b"at the second"]
    assert bodies(first) == [b"at the first", b"meanwhile"]
    assert "ERROR broker-b ended by SIGKILL. It starts again in 0.5 s. The other brokers go on." in cluster.log()
    cluster.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_all_brokers_cleanly(cluster: LocalCluster, number: signal.Signals):
    send(cluster.addresses[1], b"kept")
    pids = list(cluster.broker_pids().values())
    assert cluster.process is not None
    cluster.process.send_signal(number)
    assert cluster.process.wait(60) == 0, cluster.log_tail()
    assert not any(_is_running(pid) for pid in pids)
    assert cluster.complaints() == []
    assert not list(cluster.data.glob("store*/abort")), "each broker closed its store"
    cluster.start()
    assert bodies(cluster.addresses[1]) == [b"kept"]


def test_brokers_end_with_the_process_that_supervises_them(cluster: LocalCluster):
    pids = list(cluster.broker_pids().values())
    cluster.kill()
    wait_until(lambda: not any(_is_running(pid) for pid in pids), "the brokers end")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def port_in_use() -> Iterator[int]:
    """A port on which somebody listens, with free ones for another broker ten below."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", _free_ports(2) + 10))
        taken.listen()
        yield taken.getsockname()[1]


def test_port_in_use_is_one_sentence_and_no_broker_is_left(tmp_path: Path):
    with port_in_use() as port:
        flags = ["--brokers", "2", "--data", str(tmp_path / "data"), "--namesrv-port", "0", "--port", str(port - 10)]
        command = [sys.executable, "-m", "skyrocket", "run", *flags, *SETS]
        ended = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"broker-b did not start, it ended with code 2: Cannot listen on 127.0.0.1:{port}: "), ended.stderr


def test_fewer_brokers_than_stores_are_refused(tmp_path: Path):
    with LocalCluster(tmp_path) as cluster:
        cluster.stop()
    flags = ["run", "--data", str(cluster.data), "--namesrv-port", "0", "--port", "0"]
    ended = subprocess.run([sys.executable, "-m", "skyrocket", *flags], check=False, timeout=120, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        f"{cluster.data} has the stores of 2 brokers, and --brokers 1 would leave the messages in store-b unread. "
        "Start it with --brokers 2, or move store-b away."
    )
