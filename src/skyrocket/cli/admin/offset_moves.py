"""What a reset or a skip does to a group: from which offset to which in each queue. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from skyrocket.cli.confirmation import Plan
from skyrocket.cli.output import format_table
from skyrocket.client import Queue
from skyrocket.client.admin import QueueOffset


class OffsetMove(NamedTuple):
    """The change in one queue."""

    queue: Queue
    now: int | None  # None: the group has no offset there yet
    then: int

    @property
    def distance(self) -> int:
        """How many messages are skipped; how many come again, if it is negative. 0 where there is no offset yet."""
        return 0 if self.now is None else self.then - self.now


def plan_reset(current: Sequence[QueueOffset], targets: Mapping[Queue, int]) -> list[OffsetMove]:
    """Return the moves of a reset to these offsets. A queue without a target stays as it is."""
    return [OffsetMove(row.queue, row.offset, targets[row.queue]) for row in current if row.queue in targets]


def plan_skip(
    current: Sequence[QueueOffset], firsts: Mapping[Queue, int], ends: Mapping[Queue, int], count: int | None
) -> list[OffsetMove]:
    """Return the moves of a skip: in each queue past `count` messages that are there, or to the end. None moves back."""
    moves = []
    for row in current:
        begin = max(firsts[row.queue], row.offset or 0)
        end = max(begin, ends[row.queue])
        then = end if count is None else min(begin + count, end)
        if then != row.offset:
            moves.append(OffsetMove(row.queue, row.offset, then))
    return moves


def make_plan(group: str, topic: str, moves: Sequence[OffsetMove]) -> Plan:
    """Say what the moves do, in all and queue by queue."""
    skipped = sum(max(0, move.distance) for move in moves)
    again = sum(max(0, -move.distance) for move in moves)
    effects = [
        *([f"skips {skipped:,} messages"] if skipped else []),
        *([f"gets {again:,} messages again"] if again else []),
    ]
    sentence = f"Group {group} {' and '.join(effects) or 'neither skips a message nor gets one again'} in topic {topic}."
    rows = [
        (move.queue.broker_name, move.queue.queue_id, "-" if move.now is None else move.now, move.then, move.distance)
        for move in moves
    ]
    table = format_table(("BROKER", "QUEUE", "NOW", "THEN", "MOVE"), rows, "No offset changes.")
    return Plan(sentence, {"group": group, "topic": topic, "queues": [_document(move) for move in moves]}, table)


def _document(move: OffsetMove) -> dict[str, Any]:
    return {"brokerName": move.queue.broker_name, "queueId": move.queue.queue_id, "now": move.now, "then": move.then}
