"""A DLedger group on loopback or a network of namespaces, each node a process of ours or of Apache's, under one nameserver.

with DLedgerGroup(home, nameserver) as group:                        three nodes of ours
with DLedgerGroup(home, nameserver, kinds, cluster) as group:        kinds: "ours" or "apache" for each node
with DLedgerGroup(home, nameserver, network=network) as group:       each node of ours on the host n0, n1 or n2 of a network
    leader = group.wait_for_leader()
    group.kill(leader)
    group.start(leader)
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from skyrocket.protocol.bodies.dledger import (
    DLedgerEntry,
    LeadershipTransferRequest,
    LeadershipTransferResponse,
    LedgerCode,
    MetadataRequest,
    MetadataResponse,
)
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_push import decode_entry
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.ledger.entry import PADDING_MAGIC
from tests.support.apache.cluster import ApacheCluster, JavaProcess, send_request
from tests.support.ports import free_port
from tests.support.processes.load import Wire, pull_request, records
from tests.support.processes.network_namespaces import Network
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker, cluster_info
from tests.support.waiting import wait_until

Kind = Literal["apache", "ours"]
BROKER = "group-a"


class DLedgerGroup:
    def __init__(
        self,
        home: Path,
        nameserver: str,
        kinds: Sequence[Kind] = ("ours", "ours", "ours"),
        cluster: ApacheCluster | None = None,
        settings: Mapping[str, object] | None = None,
        network: Network | None = None,
        program: type[SkyrocketBroker] = SkyrocketBroker,
    ) -> None:
        """In a group of ours, timings are FAST unless `settings` say otherwise. `program` runs a node of ours."""
        self._program = program
        self.home = home
        self._network = network
        self.nameserver = nameserver
        self._cluster = cluster
        self.kinds = {f"n{number}": kind for number, kind in enumerate(kinds)}
        self.ports = {node: free_port(-2, 1) for node in self.kinds}
        self.node_ports = {node: free_port() for node in self.kinds}
        peers = ";".join(f"{node}-{self._host(node)}:{port}" for node, port in self.node_ports.items())
        mixed = set(kinds) != {"ours"}
        self.settings: dict[str, object] = {
            **SMALL_STORE,
            "brokerClusterName": "Test",
            "brokerName": BROKER,
            "enableDLegerCommitLog": "true",
            "dLegerGroup": BROKER,
            "dLegerPeers": peers,
            "slaveReadEnable": "true",
            "registerNameServerPeriod": 10_000,
            **(settings or {}),
        }
        self._ours = {} if mixed else {"dLedgerTimings": "FAST"}
        self._is_new = not mixed
        self.running: dict[str, JavaProcess | SkyrocketBroker] = {}
        for node in self.kinds:
            self.start(node)

    def __enter__(self) -> DLedgerGroup:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self.running.values():
            process.kill()

    # --- processes

    def start(self, node: str) -> None:
        """Start a node, over its store. It serves when this returns."""
        ports = {"listenPort": self.ports[node], "haListenPort": self.ports[node] + 1}
        settings = {**self.settings, "dLegerSelfId": node, "brokerIP2": self._host(node), **ports}
        if self.kinds[node] == "apache":
            assert self._cluster is not None
            self.running[node] = self._cluster.broker(self.home / node / "store", settings)
        elif node in self.running:
            process = self.running[node]
            assert isinstance(process, SkyrocketBroker)
            process.start()
        else:
            namespace = "" if self._network is None else self._network.namespace(node)
            own = {"bindAddress": self._host(node), **self._ours, **settings}
            self.running[node] = self._program(self.home / node, self.nameserver, own, namespace=namespace)

    def kill(self, node: str) -> None:
        self.running[node].kill()

    def transfer(self, leader: str, to: str) -> bool:
        """Move the leadership, as a tool does. Return whether the leader agrees: not to a node that is far behind."""
        request = LeadershipTransferRequest(
            group=BROKER, local_id=leader, remote_id=leader, term=self.term_of(leader), transfer_id=leader, transferee_id=to
        )
        command = Command(RequestCode.DLEDGER_LEADERSHIP_TRANSFER, opaque=1, body=encode(request))
        answer = send_request((self._host(leader), self.node_ports[leader]), command)
        return answer is not None and decode(answer.body, LeadershipTransferResponse).code == LedgerCode.SUCCESS

    def wipe(self, node: str) -> None:
        """Lose the disk of a node that does not run."""
        shutil.rmtree(self.home / node / "store")

    def address(self, node: str) -> str:
        return f"{self._host(node)}:{self.ports[node]}"

    def _host(self, node: str) -> str:
        return "127.0.0.1" if self._network is None else self._network.address(node)

    # --- questions

    def leader_according_to(self, node: str) -> str | None:
        request = MetadataRequest(group=BROKER, remote_id=node, local_id=node)
        command = Command(RequestCode.DLEDGER_METADATA, opaque=1, body=encode(request))
        answer = send_request((self._host(node), self.node_ports[node]), command)
        return None if answer is None else decode(answer.body, MetadataResponse).leader_id

    def master(self) -> str | None:
        """The node that the nameserver names as broker id 0."""
        info = cluster_info(self.nameserver)
        broker = ((info.broker_addr_table if info is not None else None) or {}).get(BROKER)
        address = None if broker is None else (broker.broker_addrs or {}).get(0)
        return next((node for node in self.ports if self.address(node) == address), None)

    def wait_for_leader(self, limit_s: float = 120, *, other_than: str | None = None) -> str:
        """Wait until a node leads and is registered as the master. Return it. On a busy machine it may be deposed by then.

        In a new group, wait also until all nodes are members. Before that, the group needs the one that is killed next.
        """
        found: list[str] = []

        def is_led() -> bool:
            node = self.master()
            if node is not None and node != other_than and self.leader_according_to(node) == node:
                found.append(node)
            return bool(found)

        if self._is_new:
            wait_until(lambda: not any(map(self._is_learner, self.kinds)), self.tails, limit_s)
            self._is_new = False
        wait_until(is_led, self.tails, limit_s)
        return found[0]

    def wait_for_new_leader(self, old: str) -> str:
        """Wait until another node says that it leads, whatever the nameserver knows of it. Return that node."""
        found: list[str] = []

        def is_led() -> bool:
            found[:] = [node for node in self.kinds if node != old and self.leader_according_to(node) == node]
            return bool(found)

        wait_until(is_led, self.tails, 120)
        return found[0]

    def tails(self) -> str:
        """The ends of all logs, for a failure."""
        return "\n".join(f"--- {node}\n{process.log_tail()}" for node, process in self.running.items())

    # --- ledgers

    def entries(self, node: str) -> list[DLedgerEntry]:
        """Read the ledger of a node from its files."""
        found: list[DLedgerEntry] = []
        for path in sorted((self.home / node / "store" / f"dledger-{node}" / "data").glob("[0-9]" * 20)):
            try:
                data, at = path.read_bytes(), 0
            except FileNotFoundError:  # it has expired meanwhile
                continue
            while at + 8 <= len(data):
                magic, size = int.from_bytes(data[at : at + 4], signed=True), int.from_bytes(data[at + 4 : at + 8])
                if magic == PADDING_MAGIC or not size:
                    break
                entry, at = decode_entry(data[at : at + size], 0)[0], at + size
                found.append(entry)
        return found

    def is_level(self) -> bool:
        """Whether all ledgers end with the same entry."""
        ends = {self._end(node) for node in self.kinds}
        return len(ends) == 1 and None not in ends

    def _end(self, node: str) -> tuple[int, int, int] | None:
        entries = self.entries(node)
        return (entries[-1].index, entries[-1].term, entries[-1].pos) if entries else None

    def describe_ledgers(self) -> str:
        return f"{ {node: self._end(node) for node in self.kinds} }\n{self.tails()}"

    def _is_learner(self, node: str) -> bool:
        return not self._term_file(node).exists() or "learner=true" in self._term_file(node).read_text()

    def _term_file(self, node: str) -> Path:
        return self.home / node / "store" / f"dledger-{node}" / "currterm"

    def term_of(self, node: str) -> int:
        """The term that a node has on disk."""
        text = self._term_file(node).read_text()
        return next(int(line.partition("=")[2]) for line in text.splitlines() if line.startswith("currTerm"))

    def read_all(self, node: str, topic: str, queues: int) -> dict[int, list[bytes]]:
        """The bodies of each queue, as a broker gives them to a consumer."""
        found = self.read_records(node, topic, queues)
        return {queue_id: [record.body for record in queue] for queue_id, queue in found.items()}

    def read_records(self, node: str, topic: str, queues: int) -> dict[int, list[Record]]:
        """The messages of each queue, as a broker gives them to a consumer."""
        found: dict[int, list[Record]] = {queue_id: [] for queue_id in range(queues)}
        with Wire(self.address(node)) as wire:
            for queue_id, queue in found.items():
                while (answer := wire.ask(pull_request(topic, len(queue), queue_id=queue_id))).code == ResponseCode.SUCCESS:
                    queue.extend(records(answer))
        return found
