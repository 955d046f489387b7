"""Lanes: what a send to a queue needs and is the same for all, found once: where its broker is, the connection, the envelope.

A topic's lanes are taken in turn. They are worked out anew when a route has changed; one whose connection has ended looks for
another, and where there is none the message goes the general way, which makes one.
"""

from __future__ import annotations

from collections.abc import Callable

from skyrocket.client.outgoing import SEND_CODE, envelope
from skyrocket.client.queue_choice import RoundRobin
from skyrocket.client.queues import Queue
from skyrocket.client.routes import Route, RouteTable
from skyrocket.client.session import DEFAULT_TOPIC_QUEUES
from skyrocket.net.connection import Connection

_TOPICS_MAX = 10_000  # whose lanes are kept


class Lane:
    __slots__ = ("address", "connection", "envelope", "queue")

    def __init__(self, group: str, queue: Queue, address: str) -> None:
        self.queue = queue
        self.address = address
        self.envelope = envelope(SEND_CODE, group, queue, DEFAULT_TOPIC_QUEUES)
        self.connection: Connection | None = None


class _TopicLanes:
    __slots__ = ("addresses", "lanes", "route", "turns", "version")

    def __init__(self, group: str, route: Route, addresses: list[str], turns: RoundRobin) -> None:
        self.lanes = [Lane(group, queue, address) for queue, address in zip(route.to_write, addresses, strict=True)]
        self.turns = turns
        self.route = route
        self.addresses = addresses
        self.version = -1


class Lanes:
    def __init__(
        self,
        group: str,
        routes: RouteTable,
        open_connection: Callable[[str], Connection | None],
        turns: Callable[[str], RoundRobin],
    ) -> None:
        """`turns` are those of the general way: both take each queue in its turn."""
        self._group = group
        self._routes = routes
        self._open_connection = open_connection
        self._turns = turns
        self._by_topic: dict[str, _TopicLanes] = {}

    def next(self, topic: str) -> Lane | None:
        """The next one in turn; None where its queue, its broker's address or a connection with it is not known."""
        lanes = self._by_topic.get(topic)
        if lanes is None or lanes.version != self._routes.version:
            lanes = self._worked_out(topic, lanes)
            if lanes is None:
                return None
        place = lanes.turns.at + 1
        lane = lanes.lanes[place % len(lanes.lanes)]
        connection = lane.connection
        if connection is None or not connection.is_open:
            connection = lane.connection = self._open_connection(lane.address)
            if connection is None:
                return None
        lanes.turns.at = place
        return lane

    def _worked_out(self, topic: str, known: _TopicLanes | None) -> _TopicLanes | None:
        route = self._routes.route(topic)
        if route is None or not route.to_write:
            return None
        addresses = [self._routes.address(queue.broker_name) or "" for queue in route.to_write]
        if known is None or known.route != route or known.addresses != addresses:
            known = _TopicLanes(self._group, route, addresses, self._turns(topic))
            self._by_topic.pop(topic, None)
            self._by_topic[topic] = known
            if len(self._by_topic) > _TOPICS_MAX:
                del self._by_topic[next(iter(self._by_topic))]
        known.version = self._routes.version
        return known
