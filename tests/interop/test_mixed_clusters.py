"""Clusters of Apache's parts and ours: either nameserver with either broker, and one topic over both under both.

Apache's clients produce and consume; brokers die without notice and come back on the same directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skyrocket.protocol.bodies import TopicRouteData
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from tests.support.apache.admin import Admin, Message
from tests.support.apache.cluster import ApacheCluster, JavaProcess, send_request
from tests.support.ports import free_port
from tests.support.processes.skyrocket_process import SMALL_STORE, SkyrocketBroker, SkyrocketNameserver, registered
from tests.support.waiting import wait_until

pytestmark = pytest.mark.interop

OURS, THEIRS = "broker-ours", "broker-theirs"
QUEUES = 4


@dataclass
class Mixed:
    home: Path
    cluster: ApacheCluster
    names: SkyrocketNameserver
    ours: SkyrocketBroker
    theirs: JavaProcess | None
    their_port: int
    admin: Admin

    @property
    def nameservers(self) -> tuple[str, str]:
        """Ours, and Apache's."""
        return self.names.nameserver, self.cluster.nameserver

    def start_theirs(self) -> None:
        self.theirs = self.cluster.broker(
            self.home / "their-store",
            {
                **SMALL_STORE,
                "brokerName": THEIRS,
                "listenPort": self.their_port,
                "namesrvAddr": ";".join(self.nameservers),
            },
        )

    def make_topic(self, topic: str, nameserver: str, *brokers: str) -> None:
        """On these brokers, by mqadmin that knows this nameserver."""
        addresses = {OURS: self.ours.address, THEIRS: f"127.0.0.1:{self.their_port}"}
        for broker in brokers:
            options = ["-b", addresses[broker], "-r", str(QUEUES), "-w", str(QUEUES)]
            printed = self.admin.admin("updateTopic", "-n", nameserver, "-t", topic, *options)
            assert "success" in printed, printed
        for each in self.nameservers:
            wait_until(lambda at=each: brokers_of(at, topic) == set(brokers), f"{each} knows {topic}")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Two brokers of one cluster, each registered with two nameservers: one of Apache's and one of ours."""
    home = tmp_path_factory.mktemp("mixed")
    with ApacheCluster(home / "apache") as cluster, SkyrocketNameserver(home / "names") as names:
        admin = Admin(home / "admin")
        both = f"{names.nameserver};{cluster.nameserver}"
        settings = {"brokerClusterName": "Test", "brokerName": OURS}
        with SkyrocketBroker(home / "broker", both, settings) as ours:
            try:
                port = free_port(-2, 1)
                made = Mixed(home, cluster, names, ours, None, port, admin)
                made.start_theirs()
                yield made
            finally:
                admin.kill()
            assert ours.complaints() == names.complaints() == []


def route(nameserver: str, topic: str) -> TopicRouteData | None:
    host, port = nameserver.split(":")
    answer = send_request((host, int(port)), Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}))
    assert answer is not None, f"{nameserver} does not answer"
    return decode(answer.body, TopicRouteData) if answer.code == ResponseCode.SUCCESS else None


def brokers_of(nameserver: str, topic: str) -> set[str]:
    found = route(nameserver, topic)
    return set() if found is None else {row.broker_name for row in found.broker_datas}


def numbers(messages: list[Message]) -> set[int]:
    return {message.number for message in messages}


def wait_until_received(admin: Admin, group: str, wanted: set[int]) -> None:
    try:
        wait_until(lambda: numbers(admin.received(group)) >= wanted, f"{group} gets everything")
    except AssertionError as error:
        missing = wanted - numbers(admin.received(group))
        raise AssertionError(f"{len(missing)} messages did not come, {sorted(missing)[:10]} among them") from error


def exchange(admin: Admin, nameserver: str, name: str, count: int) -> list[Message]:
    """Send that many to the topic `name` and receive them, each once; what was sent."""
    admin.produce(nameserver, f"{name}Producers")
    admin.consume(nameserver, f"{name}Consumers", name)
    sent = admin.send(f"{name}Producers", name, 0, count)
    wait_until_received(admin, f"{name}Consumers", set(range(count)))
    assert sorted(admin.received(f"{name}Consumers")) == sorted(sent)
    for kind in ("Producers", "Consumers"):
        admin.stop_client(f"{name}{kind}")
    return sent


def test_our_broker_serves_under_apaches_nameserver_alone(mixed: Mixed, tmp_path: Path):
    settings = {"brokerClusterName": "Alone", "brokerName": "alone"}
    theirs = mixed.cluster.nameserver
    with SkyrocketBroker(tmp_path, theirs, settings) as alone:
        printed = mixed.admin.admin("updateTopic", "-n", theirs, "-c", "Alone", "-t", "Lonely", "-r", "2", "-w", "2")
        assert f"create topic to {alone.address} success" in printed, printed
        wait_until(lambda: brokers_of(theirs, "Lonely") == {"alone"}, "the topic is registered")
        assert {message.broker for message in exchange(mixed.admin, theirs, "Lonely", 40)} == {"alone"}
        alone.stop()
        assert alone.address not in registered(theirs), "it takes its leave"
        assert brokers_of(theirs, "Lonely") == set()


def test_apaches_broker_serves_clients_that_know_only_our_nameserver(mixed: Mixed):
    mixed.make_topic("Theirs", mixed.names.nameserver, THEIRS)
    assert {message.broker for message in exchange(mixed.admin, mixed.names.nameserver, "Theirs", 40)} == {THEIRS}


def test_our_broker_serves_clients_that_know_only_apaches_nameserver(mixed: Mixed):
    mixed.make_topic("Ours", mixed.cluster.nameserver, OURS)
    assert {message.broker for message in exchange(mixed.admin, mixed.cluster.nameserver, "Ours", 40)} == {OURS}


def test_both_nameservers_give_the_same_route_over_both_brokers(mixed: Mixed):
    mixed.make_topic("Routed", mixed.names.nameserver, OURS, THEIRS)
    ours, theirs = (route(nameserver, "Routed") for nameserver in mixed.nameservers)
    assert ours is not None
    assert theirs is not None
    by_name = sorted(ours.queue_datas, key=lambda row: row.broker_name)
    assert by_name == sorted(theirs.queue_datas, key=lambda row: row.broker_name)
    assert [(row.broker_name, row.read_queue_nums, row.perm) for row in by_name] == [(OURS, QUEUES, 6), (THEIRS, QUEUES, 6)]
    shown = [
        sorted(mixed.admin.admin("clusterList", "-n", nameserver).replace(nameserver, "").split())
        for nameserver in mixed.nameservers
    ]
    for name in (OURS, THEIRS):
        assert all(name in each for each in shown), shown


def test_a_topic_over_both_brokers_is_shared_and_outlives_either(mixed: Mixed):
    """Round robin over both; one dies, the other takes all; it comes back with what it had. First ours, then Apache's."""
    nameservers = ";".join(mixed.nameservers)
    admin = mixed.admin
    mixed.make_topic("Shared", mixed.cluster.nameserver, OURS, THEIRS)
    admin.produce(nameservers, "SharedProducers")
    admin.consume(nameservers, "SharedConsumers", "Shared")
    sent = admin.send("SharedProducers", "Shared", 0, 80)
    assert [sum(message.broker == broker for message in sent) for broker in (OURS, THEIRS)] == [40, 40]

    sent += dies_and_comes_back(mixed, OURS, 1000, mixed.ours.kill, mixed.ours.start)
    assert mixed.theirs is not None
    sent += dies_and_comes_back(mixed, THEIRS, 2000, mixed.theirs.kill, mixed.start_theirs)

    received = admin.received("SharedConsumers")
    assert {message.place for message in received} >= {message.place for message in sent}
    assert len({message.place for message in sent}) == len(sent), "no place is given twice, also not after a crash"
    for group in ("SharedProducers", "SharedConsumers"):
        admin.stop_client(group)


def dies_and_comes_back(
    mixed: Mixed, name: str, first: int, kill: Callable[[], None], start: Callable[[], None]
) -> list[Message]:
    """What was sent meanwhile, numbered from `first`: all of it was received."""
    admin, everyone = mixed.admin, {OURS, THEIRS}
    kill()
    for nameserver in mixed.nameservers:
        wait_until(lambda at=nameserver: brokers_of(at, "Shared") == everyone - {name}, f"{nameserver} forgets {name}", 60)
    sent = admin.send("SharedProducers", "Shared", first, 40)
    assert {message.broker for message in sent} == everyone - {name}
    wait_until_received(admin, "SharedConsumers", numbers(sent))
    start()
    for nameserver in mixed.nameservers:
        wait_until(lambda at=nameserver: brokers_of(at, "Shared") == everyone, f"{nameserver} knows {name} again")

    def reaches_it() -> bool:
        sent.extend(admin.send("SharedProducers", "Shared", first + len(sent), 2 * QUEUES))
        return any(message.broker == name for message in sent)

    wait_until(reaches_it, f"the producer knows {name} again")
    wait_until_received(admin, "SharedConsumers", numbers(sent))
    return sent
