"""Topics whose routes an administrator deleted, until each broker has registered without them.

A registration may be under way when a topic is deleted: its broker made it before, and it arrives after. It brings the topic's
route back. The broker's next registration does not name the topic any more, and takes the route away again:

    delete orders       registration with orders       registration without orders
    ─────▶ deleted      ─────▶ has a route again       ─────▶ has none, and the deletion is forgotten

A topic that was created again meanwhile is named by the next registration, and keeps its route. Pure: no sockets, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from skyrocket.nameserver.limits import DELETED_ROUTES_MAX


class DeletedRoutes:
    def __init__(self, most: int = DELETED_ROUTES_MAX) -> None:
        self._most = most
        self._topics: dict[str, dict[str, None]] = {}  # by broker name; the oldest deletion first

    def add(self, topic: str, broker_names: Iterable[str]) -> None:
        """Remember that the topic was deleted at these brokers. Beyond the bound, a broker's oldest deletion is forgotten."""
        for name in broker_names:
            topics = self._topics.setdefault(name, {})
            topics.pop(topic, None)
            topics[topic] = None
            if len(topics) > self._most:
                del topics[next(iter(topics))]

    def take_unnamed(self, broker_name: str, named: Collection[str]) -> list[str]:
        """Return the deleted topics that the broker's registration does not name, and forget them."""
        topics = self._topics.get(broker_name)
        if not topics:
            return []
        unnamed = [topic for topic in topics if topic not in named]
        for topic in unnamed:
            del topics[topic]
        return unnamed

    def remove_broker(self, broker_name: str) -> None:
        self._topics.pop(broker_name, None)
