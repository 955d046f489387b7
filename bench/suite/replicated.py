"""Servers of several nodes: a master that waits for its slave, and a DLedger group of three. Each node is a process on loopback.

The server's port is that of the master, and its CPU time that of all nodes. It is ready when it has answered sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.apache.cluster import START_S_MAX
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver, cluster_info

from bench.suite.generator import LoadError, generate
from bench.suite.loads import TOPIC
from bench.suite.record import APACHE, OURS
from bench.suite.servers import STORE, Server, apache_broker

BROKER = "bench"
GROUP_NODES = ("n0", "n1", "n2")
PROBES = 40  # sends that must all be answered before a server counts as ready


class Node(NamedTuple):
    pid: int
    port: int


StartNode = Callable[[Path, str, Mapping[str, object]], AbstractContextManager[Node]]


@contextmanager
def _our_node(home: Path, nameserver: str, settings: Mapping[str, object]) -> Iterator[Node]:
    with SkyrocketBroker(home / "broker", nameserver, {**STORE, **settings}, home / "store") as broker:
        assert broker.process is not None
        yield Node(broker.process.pid, int(broker.address.split(":")[1]))


@contextmanager
def _apache_node(home: Path, nameserver: str, settings: Mapping[str, object]) -> Iterator[Node]:
    with apache_broker(home, nameserver, settings) as (pid, port):
        yield Node(pid, port)


_NODES: dict[str, StartNode] = {OURS: _our_node, APACHE: _apache_node}


def pair(name: str) -> Callable[[Path, Mapping[str, object]], AbstractContextManager[Server]]:
    """Return how to start a SYNC_MASTER and its slave. Apache's waits for the slave only with inSyncReplicas=2."""
    master: dict[str, object] = {"brokerRole": "SYNC_MASTER", "brokerId": 0, "inSyncReplicas": 2}
    slave: dict[str, object] = {"brokerRole": "SLAVE", "brokerId": 1}
    return lambda home, settings: _start_replicas(name, home, [{**settings, **role} for role in (master, slave)])


def group(name: str) -> Callable[[Path, Mapping[str, object]], AbstractContextManager[Server]]:
    """Return how to start a DLedger group of three nodes."""

    def start(home: Path, settings: Mapping[str, object]) -> AbstractContextManager[Server]:
        peers = ";".join(f"{node}-127.0.0.1:{free_port()}" for node in GROUP_NODES)
        shared = {"enableDLegerCommitLog": "true", "dLegerGroup": BROKER, "dLegerPeers": peers, **settings}
        return _start_replicas(name, home, [{**shared, "dLegerSelfId": node} for node in GROUP_NODES])

    return start


@contextmanager
def _start_replicas(name: str, home: Path, nodes: list[dict[str, object]]) -> Iterator[Server]:
    with ExitStack() as stack:
        names = stack.enter_context(SkyrocketNameserver(home / "names"))
        assert names.process is not None
        started: list[Node] = []
        for number, own in enumerate(nodes):
            (home / str(number)).mkdir(parents=True)
            settings = {"brokerName": BROKER, "brokerIP2": "127.0.0.1", "registerNameServerPeriod": 10_000, **own}
            started.append(stack.enter_context(_NODES[name](home / str(number), names.nameserver, settings)))
        port = _wait_until_ready(names.nameserver, name)
        pids = tuple(node.pid for node in started)
        master = next(node.pid for node in started if node.port == port)
        yield Server(name, master, (*pids, names.process.pid), port, names.nameserver, nodes=pids)


def _wait_until_ready(nameserver: str, name: str) -> int:
    """Wait until there is a master that answers sends as it promises. Return its port."""
    deadline, told = time.monotonic() + START_S_MAX, "no master is registered"
    while time.monotonic() < deadline:
        info = cluster_info(nameserver)
        broker = ((info.broker_addr_table if info is not None else None) or {}).get(BROKER)
        address = None if broker is None else (broker.broker_addrs or {}).get(0)
        if address is not None:
            port = int(address.split(":")[1])
            try:
                made = generate("send", port, TOPIC, 2.0, {"requests": PROBES, "connections": 2, "window": 1})
            except LoadError as error:
                told = str(error)
            else:
                if made.messages and not made.refused:
                    return port
                told = f"{made.refused} of {made.requests} sends were refused: {made.codes}"
        time.sleep(0.2)
    raise LoadError(f"{name} with several nodes was not ready within {START_S_MAX:.0f} s: {told}")
