"""Routes: which brokers have a topic, which of its queues are writable and readable, and the brokers' addresses. Pure.

    update(topic, data)      store what a nameserver returned; did anything change?
    route(topic)             the stored route
    address(broker, id)      the address of a broker; the master has id 0

A route stays until a newer one replaces it, so clients go on working while the nameservers are down.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from skyrocket.client.queues import Queue, java_order
from skyrocket.protocol.bodies import BrokerData, QueueData, TopicRouteData
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE

MASTER_ID: Final = 0


class Route(NamedTuple):
    """One topic's queues and brokers."""

    to_write: tuple[Queue, ...]  # in Java's order, which SelectMessageQueueByHash depends on
    to_read: tuple[Queue, ...]
    brokers: tuple[str, ...]
    is_ordered: bool = False
    is_borrowed: bool = False  # the default topic's route: brokers create the topic with its first message


def build_route(topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> Route:
    """Build a topic's route from what a nameserver returned."""
    masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in (broker.broker_addrs or {})}
    rows = sorted(data.queue_datas, key=lambda row: java_order(row.broker_name))
    to_write = tuple(_parse_ordered_queues(topic, data.order_topic_conf)) or tuple(
        Queue(topic, row.broker_name, queue_id)
        for row in rows
        if row.perm & PERM_WRITE and row.broker_name in masters
        for queue_id in range(row.write_queue_nums)
    )
    to_read = tuple(
        Queue(topic, row.broker_name, queue_id) for row in rows if row.perm & PERM_READ for queue_id in range(row.read_queue_nums)
    )
    brokers = tuple(sorted(broker.broker_name for broker in data.broker_datas))
    return Route(to_write, to_read, brokers, bool(data.order_topic_conf), is_borrowed)


def _parse_ordered_queues(topic: str, order: str | None) -> Iterator[Queue]:
    """Parse the queues of an ordered topic, which an administrator configures: broker-a:4;broker-b:4."""
    for part in (order or "").split(";"):
        broker, _, count = part.partition(":")
        if count.isdigit():
            yield from (Queue(topic, broker, queue_id) for queue_id in range(int(count)))


def limit_queues(default: TopicRouteData, queues: int) -> TopicRouteData:
    """Derive the route of a topic that does not exist yet from the default topic's: at most `queues` at each broker."""

    def limit(row: QueueData) -> QueueData:
        count = min(queues, row.read_queue_nums)
        return QueueData(
            broker_name=row.broker_name,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=row.perm,
            topic_sys_flag=row.topic_sys_flag,
        )

    return TopicRouteData(queue_datas=[limit(row) for row in default.queue_datas], broker_datas=default.broker_datas)


class RouteCache:
    """The routes of up to `topics_max` topics, and the addresses of their brokers."""

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self.version = 0  # grows with every change
        self._routes: OrderedDict[str, Route] = OrderedDict()  # the least recently used first
        self._addresses: dict[str, dict[int, str]] = {}
        self._clusters: dict[str, str] = {}

    @property
    def topics(self) -> list[str]:
        return list(self._routes)

    def route(self, topic: str) -> Route | None:
        route = self._routes.get(topic)
        if route is not None and len(self._routes) * 2 > self._topics_max:
            self._routes.move_to_end(topic)  # order matters only when entries may soon be dropped
        return route

    def update(self, topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> bool:
        """Store a topic's route and its brokers' addresses. Return whether anything changed."""
        route = build_route(topic, data, is_borrowed=is_borrowed)
        changed = self._routes.get(topic) != route
        for broker in data.broker_datas:
            changed |= self._update_broker(broker)
        if changed:
            self.version += 1
            self._routes[topic] = route
            while len(self._routes) > self._topics_max:
                self._routes.popitem(last=False)
        return changed

    def _update_broker(self, broker: BrokerData) -> bool:
        addresses = dict(broker.broker_addrs or {})
        self._clusters[broker.broker_name] = broker.cluster or ""
        if self._addresses.get(broker.broker_name) == addresses:
            return False
        self._addresses[broker.broker_name] = addresses
        return True

    def forget(self, topic: str) -> None:
        self._routes.pop(topic, None)
        self.version += 1

    def forget_unused_brokers(self) -> None:
        """Drop the addresses of brokers that no route names any more."""
        used = {name for route in self._routes.values() for name in route.brokers}
        for name in self._addresses.keys() - used:
            del self._addresses[name]
            self._clusters.pop(name, None)
            self.version += 1

    def address(self, broker: str, broker_id: int = MASTER_ID) -> str | None:
        return self._addresses.get(broker, {}).get(broker_id)

    def any_address(self, broker: str) -> str | None:
        """Return the master's address, or a slave's when there is no master."""
        addresses = self._addresses.get(broker, {})
        return addresses[min(addresses)] if addresses else None

    def cluster(self, broker: str) -> str:
        return self._clusters.get(broker, "")

    def addresses(self, *, slaves: bool) -> list[str]:
        """Return the addresses of all known brokers: masters, and slaves on request. Brokers behind a proxy share one."""
        found = {
            address: None
            for by_id in self._addresses.values()
            for broker_id, address in by_id.items()
            if slaves or broker_id == MASTER_ID
        }
        return list(found)

    def is_broker(self, address: str) -> bool:
        return any(address in by_id.values() for by_id in self._addresses.values())
