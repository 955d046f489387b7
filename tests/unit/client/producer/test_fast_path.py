"""Send routes: which queue the fast path takes next, and over which connection."""

from __future__ import annotations

from typing import Any

from skyrocket.client.producer.fast_path import SendRoutes
from skyrocket.client.producer.queue_selection import RoundRobin
from skyrocket.client.session.routes import RouteCache
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData


class FakeConnection:
    """A connection that is open or not."""

    def __init__(self) -> None:
        self.is_open = True


def data(*brokers: str, queues: int = 2, port: int = 1) -> TopicRouteData:
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6, topic_sys_flag=0)
            for name in brokers
        ],
        broker_datas=[BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:{port}"}) for name in brokers],
    )


class Scene:
    def __init__(self, *brokers: str) -> None:
        self.routes, self.round_robin = RouteCache(10), RoundRobin()
        self.open: dict[str, Any] = {f"{name}:1": FakeConnection() for name in brokers}
        self.routes.update("orders", data(*brokers))
        self.send_routes = SendRoutes("group", self.routes, self.open.get, lambda _topic: self.round_robin)

    def next(self) -> tuple[str, int] | None:
        route = self.send_routes.next("orders")
        return None if route is None else (route.address, route.queue.queue_id)


def test_fast_path_and_general_path_share_one_rotation():
    scene = Scene("a", "b")
    general = scene.round_robin.next(scene.send_routes._routes.route("orders").to_write)  # type: ignore[union-attr]
    found = {scene.next() for _ in range(3)} | {(f"{general.broker_name}:1", general.queue_id)}
    assert found == {("a:1", 0), ("a:1", 1), ("b:1", 0), ("b:1", 1)}


def test_unknown_topic_or_connection_has_no_route_and_does_not_advance_the_rotation():
    scene = Scene("a")
    assert scene.send_routes.next("other") is None
    scene.open.clear()
    at = scene.round_robin.at
    assert (scene.next(), scene.round_robin.at) == (None, at)
    scene.open["a:1"] = FakeConnection()
    assert scene.next() is not None


def test_closed_connection_is_replaced():
    scene = Scene("a")
    route = scene.send_routes.next("orders")
    assert route is not None
    route.connection.is_open = False  # type: ignore[union-attr, misc]
    scene.open["a:1"] = again = FakeConnection()
    assert [scene.send_routes.next("orders").connection for _ in range(2)] == [again, again]  # type: ignore[union-attr]


def test_changed_route_or_address_is_followed_and_other_topics_do_not_matter():
    scene = Scene("a")
    before = {scene.send_routes.next("orders") for _ in range(2)}
    scene.routes.update("others", data("b"))
    assert {scene.send_routes.next("orders") for _ in range(2)} == before, "the topic's own routes are unchanged"
    scene.open["a:2"] = FakeConnection()
    scene.routes.update("orders", data("a", queues=1, port=2))
    assert {scene.next() for _ in range(3)} == {("a:2", 0)}
    scene.routes.forget("orders")
    assert scene.next() is None
