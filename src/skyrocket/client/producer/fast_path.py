"""Lanes: what a send to a queue needs and is the same for all, found once: where its broker is, the connection, the envelope.

A topic's lanes are taken in turn. They are worked out anew when a route has changed; one whose connection has ended looks for
another, and where there is none the message goes the general way, which makes one.

The ordinary send: a small message to whichever queue is next, acknowledged at the first attempt.

Nearly every message goes this way, so it is one function and waits once, for the answer. What is not ordinary is left to
`delivery` before anything is sent; what fails goes on there, with the first attempt counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from skyrocket.client.errors import BrokerError
from skyrocket.client.message import Message, properties_text
from skyrocket.client.producer.delivery import Delivery
from skyrocket.client.producer.in_flight_limit import Gate
from skyrocket.client.producer.queue_selection import RoundRobin
from skyrocket.client.producer.request_frames import SEND_CODE, Outgoing, envelope, properties_json
from skyrocket.client.producer.send_response import SEND_BIT
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, receipt_from
from skyrocket.client.session.routes import Route, RouteTable
from skyrocket.client.session.session import DEFAULT_TOPIC_QUEUES
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.protocol.message.message_id import UniqueIdFactory

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


class Express:
    def __init__(self, delivery: Delivery, lanes: Lanes, gate: Gate, ids: UniqueIdFactory, bytes_max: int) -> None:
        """`bytes_max` is the largest body that is neither compressed nor refused."""
        self._delivery = delivery
        self._next_lane = lanes.next
        self._gate = gate
        self._ids = ids
        self._now_ms = delivery.now_ms
        self._bytes_max = bytes_max

    def lane(self, message: Message) -> Lane | None:
        """On which to send it; None: it has to go the general way."""
        return None if message.sharding_key or len(message.body) > self._bytes_max else self._next_lane(message.topic)

    async def send(self, lane: Lane, message: Message, timeout_ms: int) -> Receipt:
        body, gate, connection = message.body, self._gate, lane.connection
        assert connection is not None, "such a lane is not given out"
        size_bytes, deadline_ms = len(body), self._now_ms() + timeout_ms
        waited = not gate.try_enter(size_bytes)
        if waited:
            await self._delivery.enter(size_bytes, message.topic, deadline_ms)
        try:
            born_ms = time.time_ns() // 1_000_000
            message_id = self._ids.next(born_ms)
            if waited and not connection.is_open:
                return await self._delivery.attempt(_outgoing(message, message_id), deadline_ms)
            opaque = connection.next_opaque() | SEND_BIT
            frame = lane.envelope.plain_frame(opaque, message_id, properties_json(message), body, born_ms, message.flag)
            try:
                answer = await connection.request_frame(opaque, frame, deadline_ms)
                return receipt_from(answer, message_id, lane.queue, lane.address)
            except (NetError, BrokerError) as error:
                outgoing = _outgoing(message, message_id)
                return await self._delivery.again(outgoing, deadline_ms, lane.queue, lane.address, error)
        finally:
            gate.leave(size_bytes)


def _outgoing(message: Message, message_id: str) -> Outgoing:
    """The same for the general way."""
    properties = properties_text(message, message_id)
    return Outgoing(message.topic, SEND_CODE, message_id, properties, message.body, flag=message.flag)
