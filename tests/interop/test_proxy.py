"""Apache's clients and mqadmin through our proxy, in front of a broker of ours and one of Apache's.

Java's client 5.5.0 writes the name of a broker into its requests, so one port is enough for it. The client 4.9.8 and mqadmin use
a proxy on which each broker has a port of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CreateTopicRequestHeader
from skyrocket.protocol.requests import RequestCode
from tests.support.apache_admin import Admin
from tests.support.apache_cluster import ApacheCluster, send_request
from tests.support.java_scenes import Cluster, Got, Out, Scenes
from tests.support.ports import free_port
from tests.support.skyrocket_process import SMALL_STORE, SkyrocketBroker, SkyrocketNameserver, SkyrocketProxy, registered
from tests.support.transaction_scenes import COMMIT, ROLLBACK, UNKNOWN, TransactionScenes, stored
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

OURS, THEIRS = "broker-ours", "broker-theirs"
QUEUES = 4
CHECKS = {"transactionTimeOut": 1000, "transactionCheckInterval": 1000}


@dataclass
class Hidden:
    """A cluster behind two proxies."""

    home: Path
    nameserver: str
    brokers: dict[str, str]  # their real addresses
    proxy: SkyrocketProxy
    with_ports: SkyrocketProxy
    ports: dict[str, int]

    def make_topic(self, topic: str) -> str:
        """On both brokers, without a proxy."""
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        for address in self.brokers.values():
            assert ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_fields()).code == 0
        wait_until(lambda: all(name.encode() in self.route(topic) for name in self.brokers), f"{topic} is on both brokers")
        return topic

    def route(self, topic: str) -> bytes:
        return ask(self.nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).body


def ask(address: str, code: int, fields: dict[str, str]) -> Command:
    host, port = address.split(":")
    answer = send_request((host, int(port)), Command(code, opaque=1, fields=fields))
    assert answer is not None, f"{address} does not answer"
    return answer


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hidden]:
    home = tmp_path_factory.mktemp("hidden")
    ports = {OURS: free_port(), THEIRS: free_port()}
    own = {
        "brokerPorts": ";".join(f"{name}={port}" for name, port in ports.items()),
        "namesrvAdminEnable": "true",
    }
    with (
        ApacheCluster(home / "apache") as cluster,
        SkyrocketNameserver(home / "names") as names,
        SkyrocketBroker(home / "ours", names.nameserver, {**CHECKS, "brokerClusterName": "Test", "brokerName": OURS}) as ours,
    ):
        port = free_port(-2, 1)
        settings = {**SMALL_STORE, **CHECKS, "brokerName": THEIRS, "listenPort": port}
        cluster.broker(home / "theirs", {**settings, "namesrvAddr": f"{names.nameserver};{cluster.nameserver}"})
        wait_until(lambda: len(registered(names.nameserver)) == 2, "both brokers are registered")
        with (
            SkyrocketProxy(home / "proxy", names.nameserver, brokers=2) as proxy,
            SkyrocketProxy(home / "ports", names.nameserver, own, brokers=2) as with_ports,
        ):
            brokers = {OURS: ours.address, THEIRS: f"127.0.0.1:{port}"}
            yield Hidden(home, names.nameserver, brokers, proxy, with_ports, ports)
            for each in (proxy, with_ports):
                each.stop()
                assert each.complaints() == [], each.log_tail(100)
        assert ours.complaints() == []


@pytest.fixture(scope="module", params=["5.5.0", "4.9.8"])
def client(request: pytest.FixtureRequest, hidden: Hidden) -> Iterator[Scenes]:
    version: str = request.param
    address = (hidden.proxy if version == "5.5.0" else hidden.with_ports).address
    quick = ["-Drocketmq.client.rebalance.waitInterval=1000"]
    label = f"client{version[0]}"
    scenes = Scenes(hidden.home / label, label, Cluster(address, address, "Test"), quick, version)
    try:
        yield scenes
    finally:
        scenes.kill()


def numbered(messages: int, of: str) -> list[Out]:
    return [Out(f"{of} {i}".encode()) for i in range(messages)]


def wait_until_shared(client: Scenes, *members: str) -> None:
    """Until two members together have every queue, of both brokers: with four queues each, a member has four."""

    def is_shared() -> bool:
        return all(client.share(member) for member in members)

    wait_until(is_shared, "each member has queues")


def test_messages_sent_in_every_way_reach_two_members_of_a_group_once(hidden: Hidden, client: Scenes):
    topic, group = hidden.make_topic(client.named("ways")), client.named("group")
    members = [client.push(group, topic) for _ in range(2)]
    wait_until_shared(client, *members)
    expected: list[bytes] = []
    for how, count in {"sync": 16, "async": 20, "oneway": 8, "batch": 4}.items():
        client.send(topic, *numbered(count, how), how=how)
        expected += [out.body for out in numbered(count, how)]
    got: list[Got] = []

    def everything() -> bool:
        got[:] = [message for member in members for message in client.heard(member, 0)]
        return {message.body for message in got} >= set(expected)

    wait_until(everything, "both members together get every message")
    stored_at = {message.properties["CLUSTER"] for message in got if "CLUSTER" in message.properties}
    assert stored_at == {"Test"}
    by_queue = {(message.queue, message.offset, message.body) for message in got}
    assert len(by_queue) == len(expected)
    assert all(client.heard(member, 0) for member in members)
    client.ask("leave", *members)


def test_orderly_members_lock_queues_at_both_brokers(hidden: Hidden, client: Scenes):
    topic, group = hidden.make_topic(client.named("orderly")), client.named("group")
    before = client.numbers("overlaps")
    members = [client.push(group, topic, listener="orderly", slowMs=1) for _ in range(2)]
    wait_until_shared(client, *members)
    for queue in range(QUEUES):
        client.send(topic, *numbered(15, f"queue {queue}"), queue=queue)
    client.send(topic, *numbered(16, "both brokers"))  # one queue after another
    wait_until(lambda: sum(len(client.heard(member, 0)) for member in members) >= 76, "all messages")
    for member in members:
        offsets: dict[bytes, list[int]] = defaultdict(list)
        for message in client.heard(member, 0):
            if message.body.startswith(b"queue"):
                offsets[message.body.rsplit(b" ", 1)[0]].append(int(message.body.rsplit(b" ", 1)[1]))
        assert all(numbers == sorted(numbers) for numbers in offsets.values())
    assert client.numbers("overlaps") == before
    client.ask("leave", *members)


def test_a_failing_message_comes_again_through_the_proxy(hidden: Hidden, client: Scenes):
    topic = hidden.make_topic(client.named("again"))
    consumer = client.push(client.named("group"), topic, fails=1, level=1)
    out = numbered(4, "m")
    client.send(topic, *out)

    def all_came_again() -> bool:
        return {message.body for message in client.heard(consumer, 0) if message.reconsumed} == {each.body for each in out}

    wait_until(all_came_again, "each comes again")
    client.ask("leave", consumer)


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_both_brokers_check_back_at_a_java_client(hidden: Hidden, version: str):
    proxy = hidden.proxy if version == "5.5.0" else hidden.with_ports
    topic = hidden.make_topic(f"transactions-{version[0]}")
    java = TransactionScenes(hidden.home / f"transactions{version[0]}", proxy.address, [], version)
    try:
        producer = java.producer(f"transactions-{version[0]}")
        java.answer(COMMIT, *(f"{number} paid" for number in range(4)))
        java.answer(ROLLBACK, *(f"{number} unpaid" for number in range(4)))
        for number in range(4):  # producers take the queues in turn, of one broker and then of the other
            for outcome, body in ((COMMIT, "committed"), (ROLLBACK, "rolled back"), (UNKNOWN, "paid"), (UNKNOWN, "unpaid")):
                java.transact(producer, outcome, topic, f"{number} {body}")
        wanted = {f"{number} {body}".encode() for number in range(4) for body in ("committed", "paid")}

        def bodies(broker: str) -> set[bytes]:
            return {record.body for queue in range(QUEUES) for record in stored(hidden.brokers[broker], topic, queue)}

        wait_until(lambda: bodies(OURS) | bodies(THEIRS) >= wanted, "what was paid is committed")
        assert bodies(OURS) | bodies(THEIRS) == wanted
        assert bodies(OURS), "one of them has some"
        assert bodies(THEIRS), "so has the other"
        for number in range(4):
            assert java.checks_of(f"{number} unpaid")
    finally:
        java.kill()


@pytest.fixture(scope="module")
def mqadmin(hidden: Hidden) -> Iterator[Admin]:
    admin = Admin(hidden.home / "mqadmin")
    try:
        yield admin
    finally:
        admin.kill()


def test_mqadmin_administers_both_brokers_through_their_ports(hidden: Hidden, mqadmin: Admin):
    nameserver = hidden.with_ports.address

    def run(*arguments: str) -> str:
        return mqadmin.admin(*arguments, "-n", nameserver)

    shown = run("clusterList")
    for name, port in hidden.ports.items():
        assert re.search(rf"Test +{name} +0 +127\.0\.0\.1:{port}\b", shown), shown
    printed = run("updateTopic", "-c", "Test", "-t", "Administered", "-r", "2", "-w", "2")
    for port in hidden.ports.values():
        assert f"create topic to 127.0.0.1:{port} success" in printed, printed
    wait_until(lambda: all(name.encode() in hidden.route("Administered") for name in hidden.brokers), "both have it")
    mqadmin.produce(nameserver, "Producers")
    mqadmin.consume(nameserver, "Consumers", "Administered")
    sent = mqadmin.send("Producers", "Administered", 0, 20)
    assert {message.broker for message in sent} == {OURS, THEIRS}
    wait_until(lambda: len(mqadmin.received("Consumers")) == 20, "all are received")
    status = run("topicStatus", "-t", "Administered")
    assert len(re.findall(rf"^(?:{OURS}|{THEIRS}) +\d+ +\d+ +\d+", status, re.MULTILINE)) == 4, status
    wait_until(lambda: run("consumerProgress", "-g", "Consumers").count("Administered") == 4, "offsets are committed", every_s=1)
    members = run("consumerConnection", "-g", "Consumers")
    assert "Administered" in members, members
    client_id = re.findall(r"^\S*@\S+", members, re.MULTILINE)[0]
    asked = run("consumerStatus", "-g", "Consumers", "-i", client_id, "-s")  # a broker asks the consumer
    assert "Administered" in asked, asked
    for name in ("Producers", "Consumers"):
        mqadmin.stop_client(name)
    assert "success" in run("deleteTopic", "-c", "Test", "-t", "Administered")
    wait_until(lambda: not hidden.route("Administered"), "the route is gone")
