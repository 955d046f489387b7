"""A master and a slave on loopback, each of them ours or Apache's, under one nameserver.

    with ReplicaPair(home, cluster, master="apache", slave="ours") as pair:
        pair.wait_until_copied("orders")
        pair.kill_master()
        pair.start_master()

Both take the same settings. `cluster` starts Apache's processes, and its nameserver is the pair's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal

from skyrocket.protocol.bodies import TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import CreateTopicRequestHeader, GetMaxOffsetRequestHeader
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.system_names import DEFAULT_TOPIC
from tests.support.apache.cluster import ApacheCluster, JavaProcess, send_request
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker, registered
from tests.support.waiting import wait_until

Kind = Literal["apache", "ours"]
BROKER = "pair"
QUEUES = 4
# The master suggests its slave to every reader; the slave sends readers back that are not far behind.
MASTER = {"brokerRole": "ASYNC_MASTER", "brokerId": 0, "accessMessageInMemoryMaxRatio": 0}
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "accessMessageInMemoryMaxRatio": 40}
BOTH = {
    "brokerClusterName": "Test",
    "brokerName": BROKER,
    "brokerIP2": "127.0.0.1",
    "slaveReadEnable": "true",
    "registerNameServerPeriod": 10_000,
}


class ReplicaPair:
    def __init__(
        self, home: Path, cluster: ApacheCluster, master: Kind, slave: Kind, settings: Mapping[str, object] | None = None
    ) -> None:
        self._home = home
        self._cluster = cluster
        self.name = f"{master}-{slave}"
        self._kinds = {"master": master, "slave": slave}
        self._ports = {role: free_port(-2, 1) for role in self._kinds}
        self._settings = {**SMALL_STORE, **BOTH, **(settings or {})}
        self._running: dict[str, JavaProcess | SkyrocketBroker] = {}
        self.nameserver = cluster.nameserver
        self.start_master()
        self.start_slave()

    def __enter__(self) -> ReplicaPair:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._running.values():
            process.kill()

    # --- processes

    def start_master(self) -> None:
        self._start("master", MASTER)

    def start_slave(self) -> None:
        self._start("slave", SLAVE)

    def _start(self, role: str, own: Mapping[str, object]) -> None:
        port = self._ports[role]
        settings = {**self._settings, **own, "listenPort": port, "haListenPort": port + 1}
        if self._kinds[role] == "apache":
            self._running[role] = self._cluster.broker(self._home / role, settings)
        elif role in self._running:
            process = self._running[role]
            assert isinstance(process, SkyrocketBroker)
            process.start()
        else:
            self._running[role] = SkyrocketBroker(self._home / role, self.nameserver, settings)

    def kill_master(self) -> None:
        """As a crash. Returns when the nameserver has noticed it."""
        self._running["master"].kill()
        wait_until(lambda: self.address("master") not in registered(self.nameserver), "the nameserver drops the master")

    def address(self, role: str) -> str:
        return f"127.0.0.1:{self._ports[role]}"

    # --- requests

    def ask(self, role: str, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        fields = None if header is None else header.to_fields()
        answer = send_request(("127.0.0.1", self._ports[role]), Command(code, opaque=1, fields=fields, body=body))
        assert answer is not None, f"the {role} does not answer"
        return answer

    def make_topic(self, topic: str) -> None:
        """At the master. Apache's slave copies topics a minute later; until then it takes one from an administrator, too."""
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        for role, kind in self._kinds.items():
            if role == "master" or kind == "apache":
                assert self.ask(role, RequestCode.UPDATE_AND_CREATE_TOPIC, header).code == ResponseCode.SUCCESS
        wait_until(lambda: self._route(topic) is not None, f"the nameserver has a route of {topic}")
        wait_until(lambda: self._knows_topic(topic), f"the slave knows {topic}")

    def _route(self, topic: str) -> TopicRouteData | None:
        host, port = self.nameserver.split(":")
        answer = send_request((host, int(port)), Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}))
        return decode(answer.body, TopicRouteData) if answer is not None and answer.code == ResponseCode.SUCCESS else None

    def _knows_topic(self, topic: str) -> bool:
        request = Command(RequestCode.GET_TOPIC_CONFIG, opaque=1, fields={"topic": topic})
        answer = send_request(("127.0.0.1", self._ports["slave"]), request)
        return answer is not None and answer.code == ResponseCode.SUCCESS

    def count(self, role: str, topic: str) -> int:
        """The messages of all queues of a topic."""
        return sum(
            int(
                self.ask(role, RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=topic, queue_id=queue)).fields[
                    "offset"
                ]
            )
            for queue in range(QUEUES)
        )

    def wait_until_copied(self, topic: str) -> None:
        wanted = self.count("master", topic)
        wait_until(lambda: self.count("slave", topic) == wanted, f"the slave has the {wanted} messages of {topic}")
