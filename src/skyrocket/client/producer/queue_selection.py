"""Queue selection: which of a topic's queues a message goes to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyrocket.client.message import Message
from skyrocket.client.producer.broker_latency import LatencyTable
from skyrocket.client.queues import Queue
from skyrocket.protocol.message.tags import java_hash

QueueSelector = Callable[[Sequence[Queue], Message], Queue]
"""Chooses one of a topic's queues for a message."""


class RoundRobin:
    """The rotation over one topic's queues. `start` is any number: the place before the first queue used."""

    def __init__(self, start: int = 0, latency: LatencyTable | None = None) -> None:
        self.at = start  # the place of the queue used last
        self._latency = latency

    def next(self, queues: Sequence[Queue], *, not_at: str = "", now_ms: int = 0) -> Queue:
        """Return the next queue. `not_at` names the broker that has just failed: another is preferred."""
        if not not_at and self._latency is None:
            self.at += 1
            return queues[self.at % len(queues)]
        for is_acceptable in self._preferences(not_at, now_ms):
            for _ in queues:
                self.at += 1
                queue = queues[self.at % len(queues)]
                if is_acceptable(queue.broker_name):
                    return queue
        raise AssertionError("the last preference accepts any broker")

    def _preferences(self, not_at: str, now_ms: int) -> list[Callable[[str], bool]]:
        """Return tests of a broker, the strictest first."""
        latency = self._latency
        others: list[Callable[[str], bool]] = [lambda broker: broker != not_at, lambda _broker: True]
        if latency is None:
            return others
        return [lambda broker: broker != not_at and latency.is_available(broker, now_ms), *others]


def by_hash(queues: Sequence[Queue], sharding_key: str) -> Queue:
    """Return the queue that Java's SelectMessageQueueByHash takes for the same text and the same route."""
    value = java_hash(sharding_key)
    return queues[abs(_java_remainder(value, len(queues)))]


def _java_remainder(value: int, divisor: int) -> int:
    """Compute Java's `value % divisor`, which has the sign of the value; Python's has the sign of the divisor."""
    return value % divisor if value >= 0 else -(-value % divisor)
