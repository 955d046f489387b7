"""A queue: the topic, the name of the broker group that holds it, and its number there."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.bodies import MessageQueue
from skyrocket.protocol.signature import java_order

__all__ = ["Queue", "java_order", "queue_order"]


class Queue(NamedTuple):
    """One queue of a topic."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"queue {self.queue_id} of {self.topic} at {self.broker_name}"

    @classmethod
    def of(cls, queue: MessageQueue) -> Queue:
        """Build a queue from a request body (locks, assignments, offset resets)."""
        return cls(queue.topic, queue.broker_name, queue.queue_id)

    def as_body(self) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, self.queue_id)


def queue_order(queue: Queue) -> tuple[bytes, bytes, int]:
    """Return a key that sorts queues as Java's MessageQueue does: all members of a group must sort them alike."""
    return java_order(queue.topic), java_order(queue.broker_name), queue.queue_id
