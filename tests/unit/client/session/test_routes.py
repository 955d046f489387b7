"""Routes: how they are built from a nameserver's response, and what the cache keeps."""

from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.client.session.routes import RouteCache, build_route, limit_queues
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData

READ, WRITE, BOTH = 4, 2, 6


def route_data(**brokers: tuple[int, int, int]) -> TopicRouteData:
    """Build route data from name=(permission, queues to write, queues to read); each broker has a master and a slave."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, perm=perm, write_queue_nums=write, read_queue_nums=read)
            for name, (perm, write, read) in brokers.items()
        ],
        broker_datas=[
            BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:10911", 1: f"{name}:10912"}) for name in brokers
        ],
    )


def test_queues_are_in_order_of_broker_name():
    route = build_route("t", route_data(b=(BOTH, 1, 1), a=(BOTH, 2, 2)))
    assert route.to_write == (Queue("t", "a", 0), Queue("t", "a", 1), Queue("t", "b", 0))


def test_read_and_write_queues_follow_their_own_counts_and_permissions():
    route = build_route("t", route_data(a=(BOTH, 1, 3), b=(READ, 4, 1), c=(WRITE, 1, 4)))
    assert [queue.broker_name for queue in route.to_write] == ["a", "c"]
    assert [(queue.broker_name, queue.queue_id) for queue in route.to_read] == [("a", 0), ("a", 1), ("a", 2), ("b", 0)]


def test_broker_without_a_master_is_readable_and_not_writable():
    data = route_data(a=(BOTH, 2, 2))
    data.broker_datas[0].broker_addrs = {1: "a:10912"}
    route = build_route("t", data)
    assert route.to_write == ()
    assert len(route.to_read) == 2


def test_ordered_topic_has_the_queues_of_its_configuration():
    data = route_data(a=(BOTH, 8, 8), b=(BOTH, 8, 8))
    data.order_topic_conf = "b:2;a:1"
    route = build_route("t", data)
    assert route.to_write == (Queue("t", "b", 0), Queue("t", "b", 1), Queue("t", "a", 0))
    assert route.is_ordered


def test_new_topic_uses_the_default_topics_route_with_limited_queues():
    route = build_route("new", limit_queues(route_data(a=(BOTH, 8, 8), b=(BOTH, 2, 2)), 4), is_borrowed=True)
    assert [queue.broker_name for queue in route.to_write] == ["a"] * 4 + ["b"] * 2
    assert route.is_borrowed


def test_update_returns_whether_anything_changed():
    routes = RouteCache(topics_max=10)
    assert routes.update("t", route_data(a=(BOTH, 1, 1)))
    assert not routes.update("t", route_data(a=(BOTH, 1, 1)))
    assert routes.update("t", route_data(a=(BOTH, 2, 1)))
    moved = route_data(a=(BOTH, 2, 1))
    moved.broker_datas[0].broker_addrs = {0: "elsewhere:1"}
    assert routes.update("t", moved)
    assert routes.address("a") == "elsewhere:1"


def test_address_by_broker_name_and_id():
    routes = RouteCache(topics_max=10)
    routes.update("t", route_data(a=(BOTH, 1, 1)))
    assert routes.address("a") == "a:10911"
    assert routes.address("a", 1) == "a:10912"
    assert routes.address("a", 7) is None
    assert routes.address("nobody") is None
    assert sorted(routes.addresses(slaves=True)) == ["a:10911", "a:10912"]
    assert routes.addresses(slaves=False) == ["a:10911"]
    assert routes.is_broker("a:10912")
    assert not routes.is_broker("a:9876")


def test_forget_unused_brokers_drops_brokers_without_a_route():
    routes = RouteCache(topics_max=10)
    routes.update("t", route_data(a=(BOTH, 1, 1), b=(BOTH, 1, 1)))
    routes.update("t", route_data(b=(BOTH, 1, 1)))
    routes.forget_unused_brokers()
    assert routes.address("a") is None
    assert routes.address("b") == "b:10911"


def test_cache_is_bounded_and_drops_the_least_recently_used_topic():
    routes = RouteCache(topics_max=3)
    for topic in ("one", "two", "three"):
        routes.update(topic, route_data(a=(BOTH, 1, 1)))
    routes.route("one")
    routes.update("four", route_data(a=(BOTH, 1, 1)))
    assert routes.topics == ["three", "one", "four"]
