from __future__ import annotations

from typing import Any

import pytest

from skyrocket.nameserver import route_table, topics
from skyrocket.nameserver.deleted_routes import DeletedRoutes
from skyrocket.nameserver.errors import BadNameError, FullError, NotRegisteredError
from skyrocket.nameserver.route_table import BrokerKey, BrokerRegistration, RouteTable, in_zone
from skyrocket.protocol.bodies import (
    DataVersion,
    QueueData,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
    TopicRouteData,
)

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"
KEY = BrokerKey("Test", MASTER)
READ, WRITE = 4, 2


def config(topic: str, **given: Any) -> TopicConfig:
    return TopicConfig(topic_name=topic, **{"read_queue_nums": 4, "write_queue_nums": 4, **given})


def a_broker(
    *topic_names: str, counter: int = 1, state: int = 0, configs: list[TopicConfig] | None = None, **given: Any
) -> BrokerRegistration:
    wrapper = TopicConfigAndMappingSerializeWrapper(data_version=DataVersion(counter=counter, state_version=state))
    for each in configs or [config(name) for name in topic_names]:
        wrapper.topic_config_table[each.topic_name] = each
    values = {"cluster": "Test", "name": "a", "id": 0, "address": MASTER, "ha_address": "10.0.0.1:10912", **given}
    return BrokerRegistration(topics=wrapper, **values)


def a_table(*brokers: BrokerRegistration) -> RouteTable:
    table = RouteTable()
    for broker in brokers or [a_broker("orders", "TBW102")]:
        table.register(broker, 0)
    return table


def route(table: RouteTable, topic: str = "orders", **given: bool) -> TopicRouteData:
    found = table.route(topic, **given)
    assert found is not None, f"{topic} has no route"
    return found


def permissions(table: RouteTable, topic: str = "orders") -> list[int]:
    return [queues.perm for queues in route(table, topic).queue_datas]


# --- registration


def test_a_registered_topic_has_a_route_to_its_broker():
    found = route(a_table())
    assert [(row.broker_name, row.read_queue_nums, row.perm) for row in found.queue_datas] == [("a", 4, READ | WRITE)]
    assert [(row.cluster, row.broker_addrs) for row in found.broker_datas] == [("Test", {0: MASTER})]


def test_a_topic_on_two_brokers_has_both_in_the_order_of_their_names():
    table = a_table(a_broker("orders", "x", name="b", address=SLAVE), a_broker("orders", "x"))
    assert [row.broker_name for row in route(table).queue_datas] == ["a", "b"]


def test_an_unknown_topic_has_no_route():
    assert a_table().route("nobody") is None


def test_a_topic_with_a_new_version_replaces_the_old_one():
    table = a_table()
    table.register(a_broker(counter=2, configs=[config("orders", perm=READ, read_queue_nums=9)]), 1)
    assert [(row.read_queue_nums, row.perm) for row in route(table).queue_datas] == [(9, READ)]
    assert table.route("TBW102") is not None, "one topic is news, not all that there is"


def test_the_same_state_again_changes_no_topic_that_is_there_and_adds_those_that_are_not():
    table = a_table()
    table.topics.forbid_writing("a")
    table.delete_topic("TBW102")
    table.register(a_broker("orders", "TBW102"), 1)
    assert permissions(table) == [READ], "a topic closed for writing stays so until its broker says something new"
    assert permissions(table, "TBW102") == [READ | WRITE]


def test_a_broker_that_is_not_known_may_not_begin_with_a_single_topic():
    table = RouteTable()
    with pytest.raises(NotRegisteredError, match="all its topics"):
        table.register(a_broker("orders"), 0)
    assert table.cluster_info().broker_addr_table == {}


def test_topics_missing_from_a_registration_are_deleted_only_if_enabled():
    table = a_table(a_broker("orders", "old", "TBW102"))
    table.register(a_broker("orders", "TBW102", counter=2), 1)
    assert table.route("old") is not None
    table.register(a_broker("orders", counter=3), 1, forget_missing=True)
    assert table.route("old") is not None, "a registration of one topic is news"
    table.register(a_broker("orders", "TBW102", counter=4), 1, forget_missing=True)
    assert table.route("old") is None


def test_a_slave_gets_its_masters_address_and_registers_no_topics_beside_a_master():
    table = a_table()
    result = table.register(a_broker("orders", "own", id=1, address=SLAVE, acting_master=False), 0)
    assert (result.master_addr, result.ha_server_addr) == (MASTER, "10.0.0.1:10912")
    assert table.route("own") is None
    assert route(table).broker_datas[0].broker_addrs == {0: MASTER, 1: SLAVE}


def test_a_slave_without_a_master_registers_its_topics_unless_its_version_is_old():
    table = a_table(a_broker("orders", "x", id=1, address=SLAVE, acting_master=False))
    assert permissions(table) == [READ | WRITE]
    assert a_table(a_broker("orders", "x", id=1, address=SLAVE, acting_master=None)).route("orders") is None


def test_a_slave_acting_as_master_accepts_no_messages():
    assert permissions(a_table(a_broker("orders", "x", id=1, address=SLAVE, acting_master=True))) == [READ]


def test_a_slave_that_becomes_master_gives_up_its_old_id():
    table = a_table(a_broker("orders", "x", id=1, address=SLAVE, acting_master=False))
    table.register(a_broker("orders", "x", id=0, address=SLAVE, acting_master=False), 1)
    assert route(table).broker_datas[0].broker_addrs == {0: SLAVE}


def test_a_registration_with_an_older_state_does_not_replace_an_id():
    table = a_table(a_broker("orders", "x", state=5))
    table.register(a_broker("orders", "x", "late", state=4, address=SLAVE), 1)
    assert route(table).broker_datas[0].broker_addrs == {0: MASTER}
    assert table.route("late") is None
    table.register(a_broker("orders", "x", state=6, address=SLAVE), 1)
    assert route(table).broker_datas[0].broker_addrs == {0: SLAVE}


def test_an_address_that_registers_under_another_name_loses_its_old_entry():
    table = a_table()
    table.register(a_broker("orders", "x", name="b"), 1)
    assert list(table.cluster_info().broker_addr_table or {}) == ["b"]


def test_an_invalid_topic_name_does_not_prevent_a_registration():
    table = a_table(a_broker("orders", "my.host-1", "../../etc/passwd", "ni hao"))
    assert table.topics.all() == ["my.host-1", "orders"]


@pytest.mark.parametrize(
    "given",
    [
        {"name": "../a"},
        {"name": ""},
        {"name": "a" * 256},
        {"cluster": "a/b"},
        {"cluster": "a b"},
        {"address": "10.0.0.1"},
        {"address": "10.0.0.1:0"},
        {"address": "10.0.0.1:70000"},
        {"address": "http://x:1"},
        {"address": "x" * 400 + ":1"},
        {"ha_address": "nowhere"},
    ],
    ids=str,
)
def test_a_bad_name_or_address_is_refused_and_leaves_nothing(given: dict[str, str]):
    table = RouteTable()
    with pytest.raises(BadNameError):
        table.register(a_broker("orders", "x", **given), 0)
    assert table.cluster_info().broker_addr_table == {}
    assert len(table.topics) == 0


@pytest.mark.parametrize("address", ["10.0.0.1:1", "broker-7.example.org:10911", "[fe80::1%eth0]:10911", "[::1]:65535"])
def test_addresses_of_every_kind_are_accepted(address: str):
    assert route(a_table(a_broker("orders", "x", address=address))).broker_datas[0].broker_addrs == {0: address}


# --- bounds


def test_full_tables_refuse_new_entries_and_accept_changes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(route_table, "BROKERS_MAX", 2)
    monkeypatch.setattr(topics, "TOPICS_MAX", 3)
    table = a_table(a_broker("t1", "t2"), a_broker("t1", "t2", name="b", address=SLAVE))
    with pytest.raises(FullError, match="brokers"):
        table.register(a_broker("t1", "t2", name="c", address="10.0.0.3:10911"), 1)
    with pytest.raises(FullError, match="topics"):
        table.register(a_broker("t3", "t4", counter=2), 1)
    table.register(a_broker("t1", "t3", counter=2), 1)
    table.register(a_broker("t1", "t2", "t3", counter=3), 1)
    monkeypatch.setattr(topics, "TOPIC_ROWS_MAX", 5)
    with pytest.raises(FullError, match="on brokers"):
        table.register(a_broker("t3", name="b", address=SLAVE, counter=2), 1)


def test_removed_rows_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topics, "TOPIC_ROWS_MAX", 3)
    broker = a_broker("t1", "t2")
    broker.topics.topic_queue_mapping_info_map["t1"] = TopicQueueMappingInfo(topic="t1", bname="a")
    for _ in range(10):
        table = a_table(broker)
        table.unregister(KEY)
        table.register(broker, 1)
        table.delete_topic("t1")
        table.register(a_broker("t3", counter=2), 1)
        assert table.topics.all() == ["t2", "t3"]


# --- gone


def test_unregistering_a_broker_removes_its_topics_and_its_cluster():
    table = a_table()
    table.unregister(KEY, "a")
    assert table.route("orders") is None
    assert (table.cluster_info().broker_addr_table, table.cluster_info().cluster_addr_table) == ({}, {})
    assert table.topics.all() == []


def test_unregistering_under_a_wrong_name_still_removes_the_address():
    table = a_table()
    table.unregister(KEY, "someone-else")
    assert table.route("orders") is None


def test_a_closed_connection_removes_its_broker_unless_it_has_registered_again():
    first, second = object(), object()
    table = a_table(a_broker("orders", "x", connection=first))
    table.register(a_broker("orders", "x", connection=second), 1)
    assert table.remove_connection(first) == []
    assert table.remove_connection(second) == [KEY]
    assert table.route("orders") is None


def test_a_closed_connection_removes_all_of_its_brokers():
    shared = object()
    table = a_table(a_broker("x", "y", connection=shared), a_broker("x", "y", name="b", address=SLAVE, connection=shared))
    assert len(table.remove_connection(shared)) == 2
    assert table.topics.all() == []


def test_a_silent_broker_is_removed_after_its_own_timeout_and_not_before():
    table = RouteTable()
    table.register(a_broker("orders", "x", connection="c"), 1_000)
    table.register(a_broker("orders", "x", name="b", address=SLAVE, timeout_ms=3_000), 1_000)
    assert table.remove_silent(4_000) == []
    assert table.remove_silent(4_001) == [(BrokerKey("Test", SLAVE), None)]
    assert table.remove_silent(121_000) == []
    assert table.remove_silent(121_001) == [(KEY, "c")]
    assert table.route("orders") is None


def test_a_heartbeat_restarts_the_timeout():
    table = a_table()
    table.refresh(KEY, 50_000)
    table.refresh(BrokerKey("Test", "10.9.9.9:1"), 50_000)
    assert table.remove_silent(170_000) == []
    assert [key for key, _ in table.remove_silent(170_001)] == [KEY]


def test_topics_become_read_only_when_a_slave_acts_as_master():
    for acting, left in ((True, READ), (False, READ | WRITE)):
        table = a_table(
            a_broker("orders", "x", acting_master=acting), a_broker("orders", "x", id=1, address=SLAVE, acting_master=acting)
        )
        table.unregister(KEY)
        assert permissions(table) == [left]
        assert route(table).broker_datas[0].broker_addrs == {1: SLAVE}


def test_an_acting_master_is_shown_as_master_only_on_request():
    table = a_table(a_broker("orders", "rmq_sys_SYNC_BROKER_MEMBER_a", id=2, address=SLAVE, acting_master=True))
    assert route(table).broker_datas[0].broker_addrs == {2: SLAVE}
    assert route(table, acting_masters=True).broker_datas[0].broker_addrs == {0: SLAVE}
    assert route(table, "rmq_sys_SYNC_BROKER_MEMBER_a", acting_masters=True).broker_datas[0].broker_addrs == {2: SLAVE}
    assert table.member_group("Test", "a").broker_addrs == {2: SLAVE}, "the table itself must not change"


# --- data versions


def test_a_state_counts_as_changed_until_the_broker_registers_it():
    table = RouteTable()
    assert table.is_changed(KEY, DataVersion(counter=1))
    table.register(a_broker("orders", "x", counter=1), 0)
    assert not table.is_changed(KEY, DataVersion(counter=1))
    assert table.is_changed(KEY, DataVersion(counter=2))
    assert table.is_changed(KEY, None)


# --- topics


def test_write_permission_is_removed_and_restored_for_all_topics_of_a_broker():
    table = a_table(a_broker("orders", "TBW102"), a_broker("orders", "x", name="b", address=SLAVE))
    assert table.topics.forbid_writing("a") == 2
    assert permissions(table) == [READ, READ | WRITE]
    assert table.topics.allow_writing("a") == 2
    assert permissions(table) == [READ | WRITE, READ | WRITE]
    assert table.topics.forbid_writing("nobody") == 0


def test_a_topic_is_deleted_in_one_cluster_or_in_all():
    def table() -> RouteTable:
        return a_table(a_broker("orders", "x"), a_broker("orders", "x", name="b", address=SLAVE, cluster="Other"))

    one = table()
    one.delete_topic("orders", "Other")
    assert [row.broker_name for row in route(one).queue_datas] == ["a"]
    one.delete_topic("orders", "Nowhere")
    assert one.route("orders") is not None
    one.delete_topic("orders", "Test")
    assert one.route("orders") is None
    every = table()
    every.delete_topic("orders")
    assert every.route("orders") is None


def test_a_topic_can_be_registered_only_on_registered_brokers():
    table = a_table()
    table.register_topic("new", [QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)])
    assert route(table, "new").queue_datas[0].read_queue_nums == 2
    with pytest.raises(NotRegisteredError, match="'b'"):
        table.register_topic("newer", [QueueData(broker_name="a"), QueueData(broker_name="b")])
    assert table.route("newer") is None
    with pytest.raises(BadNameError):
        table.register_topic("../x", [QueueData(broker_name="a")])


def test_topic_lists_separate_units():
    configs = [
        config("plain"),
        config("unit", topic_sys_flag=1),
        config("sub", topic_sys_flag=2),
        config("both", topic_sys_flag=3),
    ]
    table = a_table(a_broker(configs=configs))
    assert table.topics.of_units() == ["both", "unit"]
    assert table.topics.with_unit_subscription() == ["both", "sub"]
    assert table.topics.with_unit_subscription_only() == ["sub"]


def test_topics_are_listed_by_cluster_and_system_topics_apart():
    table = a_table(a_broker("orders", "x"), a_broker("bills", "x", name="b", address=SLAVE, cluster="Other"))
    assert table.topics_of_cluster("Test") == ["orders", "x"]
    assert table.topics_of_cluster("Nowhere") == []
    assert table.system_topics() == (["Other", "Test", "a", "b"], MASTER)
    assert RouteTable().system_topics() == ([], None)


def test_static_topics_keep_their_mapping_until_they_are_deleted():
    broker = a_broker("orders", "x")
    broker.topics.topic_queue_mapping_info_map["orders"] = TopicQueueMappingInfo(topic="orders", total_queues=8, bname="a")
    table = a_table(broker)
    mappings = route(table).topic_queue_mapping_by_broker
    assert mappings is not None
    assert mappings["a"].total_queues == 8
    table.delete_topic("orders")
    table.register(a_broker("orders", counter=2), 1)
    assert route(table).topic_queue_mapping_by_broker is None


def test_a_zone_shows_its_own_brokers_and_those_without_a_master():
    table = a_table(
        a_broker("orders", "x", zone="East"),
        a_broker("orders", "x", name="b", address=SLAVE, zone="west"),
        a_broker("orders", "x", name="c", id=1, address="10.0.0.3:10911", zone="west", acting_master=False),
    )
    near = in_zone(route(table), "EAST")
    assert [row.broker_name for row in near.broker_datas] == ["a", "c"]
    assert [row.broker_name for row in near.queue_datas] == ["a", "c"]


# --- deletions and registrations that cross


def test_a_registration_from_before_a_deletion_brings_a_topic_back_only_until_the_next_one():
    table = a_table(a_broker("orders", "bills", "TBW102"))
    table.delete_topic("orders")
    table.register(a_broker("orders", "bills", "TBW102"), 1)  # it was under way
    table.register(a_broker("bills", "TBW102", counter=2), 2)
    assert table.route("orders") is None
    assert table.route("bills") is not None


def test_a_topic_that_is_created_again_after_its_deletion_keeps_its_route():
    table = a_table(a_broker("orders", "TBW102"))
    table.delete_topic("orders")
    table.register(a_broker("orders", "TBW102", counter=3), 1)
    table.register(a_broker("orders", "TBW102", counter=4), 2)
    assert table.route("orders") is not None


def test_a_deletion_in_one_cluster_leaves_the_brokers_of_others():
    other = {"name": "b", "cluster": "Other", "address": SLAVE}
    table = a_table(a_broker("orders", "TBW102"), a_broker("orders", "TBW102", **other))
    table.delete_topic("orders", "Test")
    for counter in (2, 3):
        table.register(a_broker("TBW102", "bills", counter=counter, **other), counter)
    assert [queues.broker_name for queues in route(table).queue_datas] == ["b"], "as at Apache's, it stays until it is deleted"


def test_a_single_topic_that_is_registered_tells_nothing_about_a_deleted_one():
    table = a_table(a_broker("orders", "bills", "TBW102"))
    table.delete_topic("orders")
    table.register(a_broker("orders", "bills", "TBW102"), 1)
    table.register(a_broker("bills", counter=2), 2)
    assert table.route("orders") is not None
    table.register(a_broker("bills", "TBW102", counter=2), 3)
    assert table.route("orders") is None


def test_deletions_are_remembered_within_a_bound_and_as_long_as_their_broker_is_there():
    deleted = DeletedRoutes(most=2)
    for topic in ("a", "b", "c"):
        deleted.add(topic, ["one", "two"])
    assert deleted.take_unnamed("one", ["b"]) == ["c"]
    assert deleted.take_unnamed("one", []) == ["b"]
    deleted.remove_broker("two")
    assert deleted.take_unnamed("two", []) == []
