"""Topic -> broker -> queues, and the mappings of static topics.

A topic exists while at least one broker has it. Pure: no sockets, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from skyrocket.nameserver.errors import FullError
from skyrocket.nameserver.limits import TOPIC_ROWS_MAX, TOPICS_MAX
from skyrocket.protocol.bodies import QueueData, TopicQueueMappingInfo
from skyrocket.protocol.sysflag import PERM_READ, PERM_WRITE, TOPIC_UNIT, TOPIC_UNIT_SUB

BrokerName = str


class TopicQueues:
    def __init__(self) -> None:
        self._queues: dict[str, dict[BrokerName, QueueData]] = {}
        self._mappings: dict[str, dict[BrokerName, TopicQueueMappingInfo]] = {}
        self._rows = 0  # of both tables

    # --- changes

    def check_room(self, broker_name: str, topics: Collection[str], mappings: Collection[str] = ()) -> None:
        """Raise FullError when these topics of a broker would be too many."""
        if len(self._queues) + len(topics) <= TOPICS_MAX and self._rows + len(topics) + len(mappings) <= TOPIC_ROWS_MAX:
            return  # there is room even if all are new
        new_topics = sum(topic not in self._queues for topic in topics)
        new_rows = sum(broker_name not in self._queues.get(topic, ()) for topic in topics)
        new_rows += sum(broker_name not in self._mappings.get(topic, ()) for topic in mappings)
        if len(self._queues) + new_topics > TOPICS_MAX:
            raise FullError(f"The nameserver already has {len(self._queues)} topics; {TOPICS_MAX} are allowed.")
        if self._rows + new_rows > TOPIC_ROWS_MAX:
            raise FullError(f"The nameserver already has {self._rows} rows of topics on brokers; {TOPIC_ROWS_MAX} are allowed.")

    def put(self, topic: str, queues: QueueData) -> None:
        brokers = self._queues.setdefault(topic, {})
        self._rows += queues.broker_name not in brokers
        brokers[queues.broker_name] = queues

    def put_mapping(self, topic: str, broker_name: str, mapping: TopicQueueMappingInfo) -> None:
        """Store the mapping of a topic that exists. It is removed with the topic."""
        if topic in self._queues:
            brokers = self._mappings.setdefault(topic, {})
            self._rows += broker_name not in brokers
            brokers[broker_name] = mapping

    def remove(self, topic: str, broker_names: Collection[str] | None = None) -> None:
        """Remove a topic from these brokers, or from all."""
        brokers = self._queues.get(topic, {})
        for name in list(brokers) if broker_names is None else broker_names:
            self._rows -= brokers.pop(name, None) is not None
        if not brokers and self._queues.pop(topic, None) is not None:
            self._rows -= len(self._mappings.pop(topic, ()))

    def remove_broker(self, broker_name: str) -> None:
        for topic in self.of_brokers({broker_name}):
            self.remove(topic, [broker_name])

    def keep_only(self, broker_name: str, topics: Collection[str]) -> None:
        """Remove every other topic from the broker."""
        for topic in self.of_brokers({broker_name}):
            if topic not in topics:
                self.remove(topic, [broker_name])

    def forbid_writing(self, broker_name: str) -> int:
        """Make all topics of a broker read-only. Return how many topics it has, read-only ones included."""
        return self._permit(broker_name, lambda permission: permission & ~PERM_WRITE)

    def allow_writing(self, broker_name: str) -> int:
        """Make all topics of a broker readable and writable, whatever they were before, as Apache does. Return their number."""
        return self._permit(broker_name, lambda _: PERM_READ | PERM_WRITE)

    def _permit(self, broker_name: str, change: Callable[[int], int]) -> int:
        rows = [brokers[broker_name] for brokers in self._queues.values() if broker_name in brokers]
        for queues in rows:
            queues.perm = change(queues.perm)
        return len(rows)

    # --- queries

    def __len__(self) -> int:
        return len(self._queues)

    def has(self, topic: str, broker_name: str) -> bool:
        return broker_name in self._queues.get(topic, ())

    def queues(self, topic: str) -> list[QueueData]:
        """Return the queues of a topic, sorted by broker name so that all nameservers answer alike."""
        return [queues for _, queues in sorted(self._queues.get(topic, {}).items())]

    def mappings(self, topic: str) -> Mapping[BrokerName, TopicQueueMappingInfo] | None:
        return self._mappings.get(topic)

    def all(self) -> list[str]:
        return sorted(self._queues)

    def of_brokers(self, broker_names: Collection[str]) -> list[str]:
        return sorted(topic for topic, brokers in self._queues.items() if any(name in brokers for name in broker_names))

    def of_units(self) -> list[str]:
        return self._select_by_flag(lambda flag: bool(flag & TOPIC_UNIT))

    def with_unit_subscription(self) -> list[str]:
        return self._select_by_flag(lambda flag: bool(flag & TOPIC_UNIT_SUB))

    def with_unit_subscription_only(self) -> list[str]:
        return self._select_by_flag(lambda flag: flag & (TOPIC_UNIT | TOPIC_UNIT_SUB) == TOPIC_UNIT_SUB)

    def _select_by_flag(self, is_selected: Callable[[int], bool]) -> list[str]:
        """Select topics by their flags. A topic has the flags of the first broker that registered it."""
        return sorted(
            topic for topic, brokers in self._queues.items() if is_selected(next(iter(brokers.values())).topic_sys_flag)
        )
