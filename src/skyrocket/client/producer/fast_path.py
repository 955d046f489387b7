"""The fast path: a small message to the next queue in turn, acknowledged at the first attempt. Nearly every message takes it.

Everything that all sends to one queue have in common is looked up once and kept as that queue's `SendRoute`: the address of the
broker, an open connection, and the template of the request. `SendRoutes` holds the routes of each topic. It rebuilds them when
the topic's route changes, and finds another connection when one has closed.

`FastPath.send` is one function and awaits once, for the response. A message that it cannot serve (a given queue, a selector, a
sharding key, a body to compress, a broker without a connection) goes to the general path before anything has been sent, and so do
all messages while a broker is busy. When the first attempt fails, `Delivery` makes the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from skyrocket.client.errors import BrokerError
from skyrocket.client.message import Message, properties_text
from skyrocket.client.producer.general_path import GeneralPath
from skyrocket.client.producer.queue_selection import QueueSelector, RoundRobin
from skyrocket.client.producer.request_frames import SEND_CODE, SendRequest, frame_template, properties_json
from skyrocket.client.producer.send_strategy import SendStrategy
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, build_receipt
from skyrocket.client.session.back_pressure import BackPressure
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.client.session.routes import Route, RouteCache
from skyrocket.client.session.send_responses import SEND_BIT
from skyrocket.client.session.session import DEFAULT_TOPIC_QUEUES
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError

_TOPICS_MAX = 10_000  # whose send routes are kept


class SendRoute:
    """What every send to one queue needs."""

    __slots__ = ("address", "connection", "queue", "template")

    def __init__(self, group: str, queue: Queue, address: str) -> None:
        self.queue = queue
        self.address = address
        self.template = frame_template(SEND_CODE, group, queue, DEFAULT_TOPIC_QUEUES)
        self.connection: Connection | None = None


class _TopicRoutes:
    __slots__ = ("addresses", "queue_routes", "round_robin", "route", "version")

    def __init__(self, group: str, route: Route, addresses: list[str], round_robin: RoundRobin) -> None:
        self.queue_routes = [SendRoute(group, queue, address) for queue, address in zip(route.to_write, addresses, strict=True)]
        self.round_robin = round_robin
        self.route = route
        self.addresses = addresses
        self.version = -1


class SendRoutes:
    """The send routes of all topics that a producer uses."""

    def __init__(
        self,
        group: str,
        routes: RouteCache,
        open_connection: Callable[[str], Connection | None],
        round_robin: Callable[[str], RoundRobin],
    ) -> None:
        """`round_robin` gives a topic's rotation, which the fast path shares with the general path."""
        self._group = group
        self._routes = routes
        self._open_connection = open_connection
        self._round_robin = round_robin
        self._by_topic: dict[str, _TopicRoutes] = {}

    def next(self, topic: str) -> SendRoute | None:
        """Return the route of the next queue in turn, with an open connection. Return None, and keep the rotation where it is,
        when the topic's queues, the broker's address or a connection to it are unknown."""
        known = self._by_topic.get(topic)
        if known is None or known.version != self._routes.version:
            known = self._build_routes(topic, known)
            if known is None:
                return None
        place = known.round_robin.at + 1
        route = known.queue_routes[place % len(known.queue_routes)]
        connection = route.connection
        if connection is None or not connection.is_open:
            connection = route.connection = self._open_connection(route.address)
            if connection is None:
                return None
        known.round_robin.at = place
        return route

    def _build_routes(self, topic: str, known: _TopicRoutes | None) -> _TopicRoutes | None:
        route = self._routes.route(topic)
        if route is None or not route.to_write:
            return None
        addresses = [self._routes.address(queue.broker_name) or "" for queue in route.to_write]
        if known is None or known.route != route or known.addresses != addresses:
            known = _TopicRoutes(self._group, route, addresses, self._round_robin(topic))
            self._by_topic.pop(topic, None)
            self._by_topic[topic] = known
            if len(self._by_topic) > _TOPICS_MAX:
                del self._by_topic[next(iter(self._by_topic))]
        known.version = self._routes.version
        return known


class FastPath(SendStrategy):
    """Sends small messages to the queues in turn, for a producer without namespace, tracing and options that `Delivery` must
    apply to each attempt."""

    def __init__(
        self, general: GeneralPath, routes: SendRoutes, in_flight: InFlightLimit, back_pressure: BackPressure, bytes_max: int
    ) -> None:
        """`bytes_max` is the largest body that is neither compressed nor refused."""
        self._general = general
        self._delivery = general.delivery
        self._timeout_ms = general.timeout_ms
        self._next_id = general.ids.next
        self._next_route = routes.next
        self._in_flight = in_flight
        self._back_pressure = back_pressure
        self._now_ms = general.delivery.now_ms
        self._bytes_max = bytes_max

    async def send(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        body = message.body
        size_bytes = len(body)
        if (
            queue is not None
            or selector is not None
            or message.sharding_key
            or size_bytes > self._bytes_max
            or self._back_pressure.is_active
            or (route := self._next_route(message.topic)) is None
        ):
            return await self._general.send(message, queue, selector, timeout_ms)
        in_flight, connection = self._in_flight, route.connection
        assert connection is not None, "SendRoutes.next returns routes with a connection"
        deadline_ms = self._now_ms() + (self._timeout_ms if timeout_ms is None else timeout_ms)
        waited = not in_flight.try_acquire(size_bytes)
        if waited:
            await self._delivery.acquire(size_bytes, message.topic, deadline_ms)
        try:
            born_ms = time.time_ns() // 1_000_000
            message_id = self._next_id(born_ms)
            if waited and not connection.is_open:
                return await self._delivery.attempt(_general_request(message, message_id), deadline_ms)
            opaque = connection.next_opaque() | SEND_BIT
            frame = route.template.build_plain_frame(opaque, message_id, properties_json(message), body, born_ms, message.flag)
            try:
                response = await connection.request_frame(opaque, frame, deadline_ms)
                return build_receipt(response, message_id, route.queue, route.address)
            except (NetError, BrokerError) as error:
                request = _general_request(message, message_id)
                return await self._delivery.retry_after(error, request, deadline_ms, route.queue, route.address)
        finally:
            in_flight.release(size_bytes)


def _general_request(message: Message, message_id: str) -> SendRequest:
    """Build the request as the general path would, for another attempt under the same id."""
    properties = properties_text(message, message_id)
    return SendRequest(message.topic, SEND_CODE, message_id, properties, message.body, flag=message.flag)
