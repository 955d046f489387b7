"""Routes: what is worked out from a nameserver's answer, and what stays when there is none."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.client.session.routes import RouteTable, borrowed, worked_out
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData

READ, WRITE, BOTH = 4, 2, 6


def route_data(**brokers: tuple[int, int, int]) -> TopicRouteData:
    """name=(permission, queues to write, queues to read); each broker has a master and a slave."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, perm=perm, write_queue_nums=write, read_queue_nums=read)
            for name, (perm, write, read) in brokers.items()
        ],
        broker_datas=[
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:10911", 1: f"{name}:10912"}) for name in brokers
        ],
    )


def test_queues_stand_in_the_order_of_their_brokers_names_whatever_order_came():
    route = worked_out("t", route_data(b=(BOTH, 1, 1), a=(BOTH, 2, 2)))
    assert route.to_write == (Queue("t", "a", 0), Queue("t", "a", 1), Queue("t", "b", 0))


def test_reading_and_writing_have_their_own_queues_and_permissions():
    route = worked_out("t", route_data(a=(BOTH, 1, 3), b=(READ, 4, 1), c=(WRITE, 1, 4)))
    assert [queue.broker_name for queue in route.to_write] == ["a", "c"]
    assert [(queue.broker_name, queue.queue_id) for queue in route.to_read] == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]


def test_a_broker_without_a_master_can_be_read_but_not_written():
    data = route_data(a=(BOTH, 2, 2))
    data.broker_datas[0].broker_addrs = {1: "a:10912"}
    route = worked_out("t", data)
    assert route.to_write == ()
    assert len(route.to_read) == 2


def test_an_ordered_topics_queues_are_those_that_its_order_names():
    data = route_data(a=(BOTH, 8, 8), b=(BOTH, 8, 8))
    data.order_topic_conf = "b:2;a:1"
    route = worked_out("t", data)
    assert route.to_write == (Queue("t", "b", 0), Queue("t", "b", 1), Queue("t", "a", 0))
    assert route.is_ordered


def test_a_new_topic_borrows_the_default_topics_route_with_no_more_queues_than_asked_for():
    route = worked_out("new", borrowed(route_data(a=(BOTH, 8, 8), b=(BOTH, 2, 2)), 4), is_borrowed=True)
    assert [queue.broker_name for queue in route.to_write] == ["a"] * 4 + ["b"] * 2
    assert route.is_borrowed


def test_an_update_says_whether_something_changed():
    table = RouteTable(topics_max=10)
    assert table.updated("t", route_data(a=(BOTH, 1, 1)))
    assert not table.updated("t", route_data(a=(BOTH, 1, 1)))
    assert table.updated("t", route_data(a=(BOTH, 2, 1)))
    moved = route_data(a=(BOTH, 2, 1))
    moved.broker_datas[0].broker_addrs = {0: "elsewhere:1"}
    assert table.updated("t", moved)
    assert table.address("a") == "elsewhere:1"


def test_addresses_are_found_by_name_and_id():
    table = RouteTable(topics_max=10)
    table.updated("t", route_data(a=(BOTH, 1, 1)))
    assert table.address("a") == "a:10911"
    assert table.address("a", 1) == "a:10912"
    assert table.address("a", 7) is None
    assert table.address("nobody") is None
    assert sorted(table.addresses(slaves=True)) == ["a:10911", "a:10912"]
    assert table.addresses(slaves=False) == ["a:10911"]
    assert table.is_broker("a:10912")
    assert not table.is_broker("a:9876")


def test_a_broker_that_no_route_names_any_more_is_forgotten():
    table = RouteTable(topics_max=10)
    table.updated("t", route_data(a=(BOTH, 1, 1), b=(BOTH, 1, 1)))
    table.updated("t", route_data(b=(BOTH, 1, 1)))
    table.forget_unused_brokers()
    assert table.address("a") is None
    assert table.address("b") == "b:10911"


def test_the_table_is_bounded_and_forgets_what_was_not_used_for_longest():
    table = RouteTable(topics_max=3)
    for topic in ("one", "two", "three"):
        table.updated(topic, route_data(a=(BOTH, 1, 1)))
    table.route("one")
    table.updated("four", route_data(a=(BOTH, 1, 1)))
    assert table.topics == ["three", "one", "four"]
