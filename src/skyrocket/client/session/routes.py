"""Routes: which brokers have a topic, which of its queues can be written and read, and where the brokers are. Pure.

    updated(topic, route)    a nameserver told: what has changed?
    route(topic)             what is known
    address(broker, id)      where a broker is; the master is 0

What was once known stays until something newer is told: a cluster goes on working while its nameservers are gone.
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
    """One topic's route, worked out."""

    to_write: tuple[Queue, ...]  # in Java's order, on which its hash selector depends
    to_read: tuple[Queue, ...]
    brokers: tuple[str, ...]
    is_ordered: bool = False
    is_borrowed: bool = False  # the default topic's: brokers will create the topic when the first message comes


def worked_out(topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> Route:
    masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in (broker.broker_addrs or {})}
    rows = sorted(data.queue_datas, key=lambda row: java_order(row.broker_name))
    to_write = tuple(_ordered(topic, data.order_topic_conf)) or tuple(
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


def _ordered(topic: str, order: str | None) -> Iterator[Queue]:
    """An ordered topic's queues are laid down by the administrator: broker-a:4;broker-b:4."""
    for part in (order or "").split(";"):
        broker, _, count = part.partition(":")
        if count.isdigit():
            yield from (Queue(topic, broker, queue_id) for queue_id in range(int(count)))


def borrowed(default: TopicRouteData, queues: int) -> TopicRouteData:
    """The route of a topic that does not exist yet, from the default topic's: at most so many queues at each broker."""

    def narrowed(row: QueueData) -> QueueData:
        count = min(queues, row.read_queue_nums)
        return QueueData(
            broker_name=row.broker_name,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=row.perm,
            topic_sys_flag=row.topic_sys_flag,
        )

    return TopicRouteData(queue_datas=[narrowed(row) for row in default.queue_datas], broker_datas=default.broker_datas)


class RouteTable:
    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self.version = 0  # another one whenever something has changed
        self._routes: OrderedDict[str, Route] = OrderedDict()  # the least recently looked up first
        self._addresses: dict[str, dict[int, str]] = {}
        self._clusters: dict[str, str] = {}

    @property
    def topics(self) -> list[str]:
        return list(self._routes)

    def route(self, topic: str) -> Route | None:
        route = self._routes.get(topic)
        if route is not None and len(self._routes) * 2 > self._topics_max:
            self._routes.move_to_end(topic)  # only once it may have to be decided who goes
        return route

    def updated(self, topic: str, data: TopicRouteData, *, is_borrowed: bool = False) -> bool:
        """Whether the route, or where its brokers are, has changed."""
        route = worked_out(topic, data, is_borrowed=is_borrowed)
        changed = self._routes.get(topic) != route
        for broker in data.broker_datas:
            changed |= self._brokers(broker)
        if changed:
            self.version += 1
            self._routes[topic] = route
            while len(self._routes) > self._topics_max:
                self._routes.popitem(last=False)
        return changed

    def _brokers(self, broker: BrokerData) -> bool:
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
        """Those that no route names any more."""
        used = {name for route in self._routes.values() for name in route.brokers}
        for name in self._addresses.keys() - used:
            del self._addresses[name]
            self._clusters.pop(name, None)
            self.version += 1

    def address(self, broker: str, broker_id: int = MASTER_ID) -> str | None:
        return self._addresses.get(broker, {}).get(broker_id)

    def any_address(self, broker: str) -> str | None:
        """The master's where there is one, else some slave's."""
        addresses = self._addresses.get(broker, {})
        return addresses[min(addresses)] if addresses else None

    def cluster(self, broker: str) -> str:
        return self._clusters.get(broker, "")

    def addresses(self, *, slaves: bool) -> list[str]:
        """Of all brokers that are known."""
        return [
            address
            for by_id in self._addresses.values()
            for broker_id, address in by_id.items()
            if slaves or broker_id == MASTER_ID
        ]

    def is_broker(self, address: str) -> bool:
        return any(address in by_id.values() for by_id in self._addresses.values())
