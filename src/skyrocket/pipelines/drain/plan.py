"""Decides what a drain takes, and whether the group may be moved. Pure.

    committed 700 ────────── waiting ────────── end 1,000         archive 700 to 999, then set the group to 1,000
                 selected and not: all of it is archived

A condition divides what waits into three parts. Selected messages stay in the archive until they are replayed. Others that the
group subscribes to go to its retry topic before the group is moved: otherwise it would never see them. The rest the group would
not have got anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.errors import ArgumentError, DrainError
from skyrocket.pipelines.replay.selection import Selection, literal
from skyrocket.protocol.message.tags import subscription_tags

EVERYTHING: Final = "true"


class Conditions(NamedTuple):
    """Conditions of Spark SQL over the columns of messages."""

    selected: str = EVERYTHING
    subscribed: str = EVERYTHING

    @property
    def replayed(self) -> str:
        """What comes back with the replay. A condition that is null does not hold."""
        return _both(_holds(self.selected), _holds(self.subscribed))

    @property
    def resent(self) -> str:
        """What goes to the group's retry topic at once."""
        return _both(f"NOT {_holds(self.selected)}", _holds(self.subscribed))

    @property
    def selects_everything(self) -> bool:
        return self.selected == EVERYTHING


def _holds(condition: str) -> str:
    return EVERYTHING if condition == EVERYTHING else f"coalesce({condition}, false)"


def _both(first: str, second: str) -> str:
    return " AND ".join(one for one in (first, second) if one != EVERYTHING) or EVERYTHING


def select_condition(tags: Sequence[str], where: str | None) -> str:
    """Return the condition of the messages that are drained: one of the tags, if any are given, and the SQL condition."""
    found = Selection(tags=tags, where=where).conditions()
    return f"({' AND '.join(found)})" if found else EVERYTHING


def subscribe_condition(topics: Sequence[str], subscriptions: Mapping[str, str], by_sql: Sequence[str] = ()) -> str:
    """Return the condition of the messages that the group subscribes to, from what its connected members say.

    Raise ArgumentError where that is not known: without a member, or for an SQL92 expression, whose meaning is the broker's.
    """
    parts = []
    for topic in topics:
        if topic not in subscriptions or topic in by_sql:
            why = (
                f"The group filters topic '{topic}' by SQL92, which only brokers evaluate."
                if topic in by_sql
                else f"No connected member says what the group subscribes to in topic '{topic}'."
            )
            raise ArgumentError(
                f"{why} Say which messages it gets with --subscribed: true for all, or a condition such as "
                "\"tags IN ('paid', 'sent')\"."
            )
        tags = subscription_tags(subscriptions[topic])
        own = f"topic = {literal(topic)}"
        parts.append(own if tags is None else f"{own} AND tags IN ({', '.join(map(literal, sorted(tags)))})")
    if all(subscription_tags(subscriptions[topic]) is None for topic in topics):
        return EVERYTHING
    return " OR ".join(f"({part})" for part in parts)


def plan_ranges(
    group: str, committed: Mapping[Queue, int | None], bounds: Mapping[Queue, QueueBounds]
) -> dict[Queue, QueueBounds]:
    """Return the waiting offsets of each queue.

    A queue in which the group has no offset is new to it, so all of it waits. Raise ArgumentError if the group has no offset in
    any queue of a topic: then nothing says that it consumes the topic.
    """
    for topic in sorted({queue.topic for queue in bounds}):
        if all(committed.get(queue) is None for queue in bounds if queue.topic == topic):
            raise ArgumentError(f"Group '{group}' has no offset in topic '{topic}', so nothing of it waits.")
    found = {}
    for queue, (first, last) in sorted(bounds.items()):
        offset = committed.get(queue)
        start = first if offset is None else max(offset, first)
        found[queue] = QueueBounds(min(start, last), last)
    return found


def needs_move(group: str, queue: Queue, drained: QueueBounds, committed: int | None, end: int) -> bool:
    """Whether the group is still before the end of what was archived. It is never moved backwards.

    Raise DrainError if messages that are not archived lie between: someone has reset the group, or created the topic again.
    """
    if end < drained.last:
        raise DrainError(
            f"{queue} ends at {end}, but was archived up to {drained.last}: the topic was deleted and created again, or its "
            "broker lost messages. The group was not moved there; the archive has the messages."
        )
    if committed is None:
        return drained.last > drained.first
    if committed < drained.first:
        raise DrainError(
            f"Group '{group}' was set back to {committed} of {queue}, and the archive begins at {drained.first}. To move it "
            "would pass over messages that are not archived. Let it consume up to there, or drain it to a new folder."
        )
    return committed < drained.last
