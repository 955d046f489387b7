"""Which queue the ordinary send takes, and what it takes along."""

from __future__ import annotations

from typing import Any

from skyrocket.client.producer.fast_path import Lanes
from skyrocket.client.producer.queue_selection import RoundRobin
from skyrocket.client.session.routes import RouteTable
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData


class Connected:
    """A connection, as far as its being open goes."""

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
        self.routes, self.turns = RouteTable(10), RoundRobin()
        self.open: dict[str, Any] = {f"{name}:1": Connected() for name in brokers}
        self.routes.updated("orders", data(*brokers))
        self.lanes = Lanes("group", self.routes, self.open.get, lambda _topic: self.turns)

    def next(self) -> tuple[str, int] | None:
        lane = self.lanes.next("orders")
        return None if lane is None else (lane.address, lane.queue.queue_id)


def test_all_queues_have_their_turn_together_with_what_goes_the_general_way():
    scene = Scene("a", "b")
    general = scene.turns.next(scene.lanes._routes.route("orders").to_write)  # type: ignore[union-attr]
    found = {scene.next() for _ in range(3)} | {(f"{general.broker_name}:1", general.queue_id)}
    assert found == {("a:1", 0), ("a:1", 1), ("b:1", 0), ("b:1", 1)}


def test_a_topic_or_a_broker_that_is_not_known_yet_has_no_lane_and_uses_no_turn_up():
    scene = Scene("a")
    assert scene.lanes.next("other") is None
    scene.open.clear()
    at = scene.turns.at
    assert (scene.next(), scene.turns.at) == (None, at)
    scene.open["a:1"] = Connected()
    assert scene.next() is not None


def test_a_connection_that_has_ended_is_looked_for_anew():
    scene = Scene("a")
    lane = scene.lanes.next("orders")
    assert lane is not None
    lane.connection.is_open = False  # type: ignore[union-attr, misc]
    scene.open["a:1"] = again = Connected()
    assert [scene.lanes.next("orders").connection for _ in range(2)] == [again, again]  # type: ignore[union-attr]


def test_a_route_or_an_address_that_changed_is_followed_and_other_topics_do_not_matter():
    scene = Scene("a")
    lanes = {scene.lanes.next("orders") for _ in range(2)}
    scene.routes.updated("others", data("b"))
    assert {scene.lanes.next("orders") for _ in range(2)} == lanes, "its own is as it was"
    scene.open["a:2"] = Connected()
    scene.routes.updated("orders", data("a", queues=1, port=2))
    assert {scene.next() for _ in range(3)} == {("a:2", 0)}
    scene.routes.forget("orders")
    assert scene.next() is None
