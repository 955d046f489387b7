"""Which broker has which queues of a topic: topic -> broker -> queues, and the mappings of static topics beside them.

A topic is there while a broker has it. Pure: no sockets, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from skyrocket.nameserver.errors import FullError
from skyrocket.nameserver.limits import TOPIC_ROWS_MAX, TOPICS_MAX
from skyrocket.protocol.bodies import QueueData, TopicQueueMappingInfo
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE, TOPIC_UNIT, TOPIC_UNIT_SUB

BrokerName = str


class Topics:
    def __init__(self) -> None:
        self._queues: dict[str, dict[BrokerName, QueueData]] = {}
        self._mappings: dict[str, dict[BrokerName, TopicQueueMappingInfo]] = {}
        self._rows = 0  # of both tables

    # --- changes

    def check_room(self, broker_name: str, topics: Collection[str], mappings: Collection[str] = ()) -> None:
        """FullError when these topics of a broker would be too many."""
        if len(self._queues) + len(topics) <= TOPICS_MAX and self._rows + len(topics) + len(mappings) <= TOPIC_ROWS_MAX:
            return  # even if all of them are new
        new_topics = sum(topic not in self._queues for topic in topics)
        new_rows = sum(broker_name not in self._queues.get(topic, ()) for topic in topics)
        new_rows += sum(broker_name not in self._mappings.get(topic, ()) for topic in mappings)
        if len(self._queues) + new_topics > TOPICS_MAX:
            raise FullError(f"{len(self._queues)} topics are known, and {TOPICS_MAX} are the most.")
        if self._rows + new_rows > TOPIC_ROWS_MAX:
            raise FullError(f"{self._rows} topics on brokers are known, and {TOPIC_ROWS_MAX} are the most.")

    def put(self, topic: str, queues: QueueData) -> None:
        brokers = self._queues.setdefault(topic, {})
        self._rows += queues.broker_name not in brokers
        brokers[queues.broker_name] = queues

    def put_mapping(self, topic: str, broker_name: str, mapping: TopicQueueMappingInfo) -> None:
        """Only of a topic that is there: it goes when the topic goes."""
        if topic in self._queues:
            brokers = self._mappings.setdefault(topic, {})
            self._rows += broker_name not in brokers
            brokers[broker_name] = mapping

    def remove(self, topic: str, broker_names: Collection[str] | None = None) -> None:
        """From these brokers, or from all."""
        brokers = self._queues.get(topic, {})
        for name in list(brokers) if broker_names is None else broker_names:
            self._rows -= brokers.pop(name, None) is not None
        if not brokers and self._queues.pop(topic, None) is not None:
            self._rows -= len(self._mappings.pop(topic, ()))

    def remove_broker(self, broker_name: str) -> None:
        for topic in self.of_brokers({broker_name}):
            self.remove(topic, [broker_name])

    def keep_only(self, broker_name: str, topics: Collection[str]) -> None:
        """The broker has no others any more."""
        for topic in self.of_brokers({broker_name}):
            if topic not in topics:
                self.remove(topic, [broker_name])

    def forbid_writing(self, broker_name: str) -> int:
        """How many topics the broker has: all of them count, also those that nobody could write to before."""
        return self._permit(broker_name, lambda permission: permission & ~PERM_WRITE)

    def allow_writing(self, broker_name: str) -> int:
        """The same count. All of its topics can be read and written then, as at Apache's, whatever they permitted before."""
        return self._permit(broker_name, lambda _: PERM_READ | PERM_WRITE)

    def _permit(self, broker_name: str, change: Callable[[int], int]) -> int:
        rows = [brokers[broker_name] for brokers in self._queues.values() if broker_name in brokers]
        for queues in rows:
            queues.perm = change(queues.perm)
        return len(rows)

    # --- questions

    def __len__(self) -> int:
        return len(self._queues)

    def has(self, topic: str, broker_name: str) -> bool:
        return broker_name in self._queues.get(topic, ())

    def queues(self, topic: str) -> list[QueueData]:
        """In the order of the brokers' names, so that all nameservers answer alike."""
        return [queues for _, queues in sorted(self._queues.get(topic, {}).items())]

    def mappings(self, topic: str) -> Mapping[BrokerName, TopicQueueMappingInfo] | None:
        return self._mappings.get(topic)

    def all(self) -> list[str]:
        return sorted(self._queues)

    def of_brokers(self, broker_names: Collection[str]) -> list[str]:
        return sorted(topic for topic, brokers in self._queues.items() if any(name in brokers for name in broker_names))

    def of_units(self) -> list[str]:
        return self._flagged(lambda flag: bool(flag & TOPIC_UNIT))

    def with_unit_subscription(self) -> list[str]:
        return self._flagged(lambda flag: bool(flag & TOPIC_UNIT_SUB))

    def with_unit_subscription_only(self) -> list[str]:
        return self._flagged(lambda flag: flag & (TOPIC_UNIT | TOPIC_UNIT_SUB) == TOPIC_UNIT_SUB)

    def _flagged(self, is_meant: Callable[[int], bool]) -> list[str]:
        """A topic's flags are those that its first broker told."""
        return sorted(topic for topic, brokers in self._queues.items() if is_meant(next(iter(brokers.values())).topic_sys_flag))
