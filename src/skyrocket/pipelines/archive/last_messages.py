"""Which message was the last one that a job took of each queue: so it notices a topic that was created again.

    archived up to 1,000 ──► the message at 999 was 7F00…2A           the next run looks at 999 again, before it takes more

Offsets of a topic that was created again begin at 0, and those of another cluster mean other messages. If the queue has grown
past the old offset, only the id of a message tells that. `single_messages` asks the brokers. This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import PlanWords, QueueBounds, RunPlan
from skyrocket.pipelines.errors import MissingMessagesError


class LastMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The last message that was taken of a queue."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    id: str

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker, self.queue_id)


def replace_messages(known: Iterable[LastMessage], newer: Iterable[LastMessage]) -> list[LastMessage]:
    """Return the last message of each queue, in the order of queues. Pure."""
    return sorted({one.queue: one for one in (*known, *newer)}.values(), key=lambda one: one.queue)


def comparable(known: Iterable[LastMessage], plan: RunPlan, bounds: Mapping[Queue, QueueBounds]) -> list[LastMessage]:
    """Return the known messages that can be compared: the broker still has their offset, and more of the queue is to be taken."""
    return [one for one in known if plan.starts.get(one.queue, 0) < plan.stops.get(one.queue, 0) and is_there(one, bounds)]


def is_there(message: LastMessage, bounds: Mapping[Queue, QueueBounds]) -> bool:
    """Whether its queue has a message at its offset, be it this one or another."""
    first, last = bounds.get(message.queue, QueueBounds(0, 0))
    return first <= message.offset < last


def check_ids(known: Iterable[LastMessage], found: Mapping[Queue, str], words: PlanWords) -> None:
    """Raise MissingMessagesError if a queue has another message where the known one was.

    A message that the broker has deleted says nothing.
    """
    for one in known:
        now = found.get(one.queue, one.id)
        if now != one.id:
            raise MissingMessagesError(
                f"{words.holder} has {one.queue} up to offset {one.offset + 1}, and the message at {one.offset} was {one.id}; "
                f"now it is {now}: the topic was deleted and created again, or this is another cluster. {words.elsewhere}"
            )
