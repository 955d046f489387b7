"""Which queue a message goes to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.client.message import Message
from skyrocket.client.producer.broker_latency import LatencyTable
from skyrocket.client.queues import Queue
from skyrocket.protocol.message.tags import java_hash

QueueSelector = Callable[[Sequence[Queue], Message], Queue]
"""Chooses one of a topic's queues for a message."""


class RoundRobin:
    """The queues of a topic in turn, each topic from a place of its own. `start` is any number."""

    def __init__(self, start: int = 0, latency: LatencyTable | None = None) -> None:
        self.at = start  # the last one's place
        self._latency = latency

    def next(self, queues: Sequence[Queue], *, not_at: str = "", now_ms: int = 0) -> Queue:
        """`not_at` is the broker that has just failed: another is chosen where there is one."""
        if not not_at and self._latency is None:
            self.at += 1
            return queues[self.at % len(queues)]
        for is_fit in self._wishes(not_at, now_ms):
            for _ in queues:
                self.at += 1
                queue = queues[self.at % len(queues)]
                if is_fit(queue.broker_name):
                    return queue
        raise AssertionError("the last wish is any queue")

    def _wishes(self, not_at: str, now_ms: int) -> list[Callable[[str], bool]]:
        """What is wanted of a broker, the best first."""
        latency = self._latency
        others: list[Callable[[str], bool]] = [lambda broker: broker != not_at, lambda _broker: True]
        if latency is None:
            return others
        return [lambda broker: broker != not_at and latency.is_available(broker, now_ms), *others]


def by_hash(queues: Sequence[Queue], sharding_key: str) -> Queue:
    """The queue that Java's SelectMessageQueueByHash takes for the same text, where both know the same route."""
    value = java_hash(sharding_key)
    return queues[abs(_java_remainder(value, len(queues)))]


def _java_remainder(value: int, divisor: int) -> int:
    """Java's has the sign of the value, Python's that of the divisor."""
    return value % divisor if value >= 0 else -(-value % divisor)
