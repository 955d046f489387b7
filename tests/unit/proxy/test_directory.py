"""Which brokers the proxy knows, and which addresses clients see."""

from __future__ import annotations

from skyrocket.protocol.bodies import BrokerData, ClusterInfo, TopicRouteData
from skyrocket.proxy.directory import BrokerDirectory, VisibleAddresses


def data(name: str, **addresses: str) -> BrokerData:
    return BrokerData(broker_name=name, broker_addrs={int(key[2:]): address for key, address in addresses.items()})


def cluster(*brokers: BrokerData) -> ClusterInfo:
    return ClusterInfo(broker_addr_table={each.broker_name: each for each in brokers})


def test_a_broker_is_its_master_and_without_one_its_first_slave():
    directory = BrokerDirectory()
    directory.replace(cluster(data("a", id0="h:1", id1="h:2"), data("b", id2="h:4", id1="h:3")))
    assert directory.names == ["a", "b"]
    assert (directory.address("a"), directory.address("b"), directory.address("c")) == ("h:1", "h:3", None)
    assert (directory.address("a", 1), directory.address("b", 0)) == ("h:2", None)


def test_cluster_information_replaces_all_and_a_route_adds_its_own_brokers():
    directory = BrokerDirectory()
    directory.replace(cluster(data("a", id0="h:1"), data("b", id0="h:2")))
    assert directory.learn([data("a", id0="h:1", id1="h:7"), data("d", id0="h:4"), data("empty")])
    assert [directory.address(name) for name in ("a", "b", "d", "empty")] == ["h:1", "h:2", "h:4", None]
    directory.replace(cluster(data("c", id0="h:3")))
    assert directory.names == ["c"]


def test_a_route_that_contradicts_changes_nothing():
    """The nameserver may be the one that is wrong. Cluster information of the proxy's own nameserver decides."""
    directory = BrokerDirectory()
    directory.replace(cluster(data("a", id0="h:1")))
    assert not directory.learn([data("a", id0="h:9"), data("b", id0="h:2")])
    assert (directory.address("a"), directory.address("b")) == ("h:1", "h:2")
    assert directory.learn([data("b", id1="h:2")]), "the first slave acts as master"
    directory.replace(cluster(data("a", id0="h:9"), data("b", id0="h:5")), keep={"b"})
    assert (directory.address("a"), directory.address("b")) == ("h:9", "h:2")
    assert directory.changes(cluster(data("a", id0="h:9"), data("b", id1="h:6"), data("c", id0="h:7"))) == {"b": "h:6"}


def test_a_nameserver_that_has_just_started_takes_nothing_away():
    directory = BrokerDirectory()
    directory.replace(cluster(data("a", id0="h:1")))
    for empty in (ClusterInfo(), ClusterInfo(broker_addr_table={})):
        directory.replace(empty)
    assert directory.names == ["a"]


def test_clients_see_the_proxy_in_the_place_of_a_master():
    visible = VisibleAddresses("p:1", {})
    route = TopicRouteData(
        broker_datas=[data("a", id0="h:1", id1="h:2"), data("b", id1="h:3", id2="h:4"), data("c")],
        filter_server_table={"h:1": ["h:7"]},
    )
    visible.show_route(route)
    assert [each.broker_addrs for each in route.broker_datas] == [{0: "p:1"}, {1: "p:1"}, {}]
    assert route.filter_server_table == {}


def test_a_port_of_its_own_is_shown_for_a_broker_and_for_a_slave():
    visible = VisibleAddresses("p:1", {("a", 0): "p:2", ("b", 1): "p:3"})
    info = cluster(data("a", id0="h:1", id1="h:2"), data("b", id0="h:3", id1="h:4"))
    visible.show_cluster(info)
    assert {name: each.broker_addrs for name, each in (info.broker_addr_table or {}).items()} == {
        "a": {0: "p:2"},
        "b": {0: "p:1", 1: "p:3"},
    }
    visible.show_cluster(ClusterInfo())


def test_the_port_of_a_master_serves_the_first_slave_while_there_is_no_master():
    visible = VisibleAddresses("p:1", {("a", 0): "p:2", ("b", 0): "p:3", ("b", 1): "p:4"})
    route = TopicRouteData(broker_datas=[data("a", id1="h:2", id2="h:3"), data("b", id1="h:4", id2="h:5")])
    visible.show_route(route)
    assert [each.broker_addrs for each in route.broker_datas] == [{1: "p:2"}, {1: "p:4"}]
    assert [visible.served_id(("a", 0), known) for known in ([], [1, 2], [0, 1])] == [0, 1, 0]
    assert [visible.served_id(("b", number), [1, 2]) for number in (0, 1)] == [0, 1]
    assert [visible.has_main(name, known) for name, known in (("a", [1]), ("b", [0]), ("c", [0]), ("c", [2]), ("c", []))] == [
        False,
        False,
        True,
        True,
        False,
    ]
