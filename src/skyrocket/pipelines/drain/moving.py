"""Sets a group's offsets behind what was archived, and waits until they hold.

Offsets are set by the reset of an administrator, which counts at once and reaches connected members with their next pull. A
member may commit an older offset in between, and learns the new one afterwards. So the offsets are read until all of them hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.drain.plan import needs_move
from skyrocket.pipelines.errors import DrainError

HOLD_S_MAX: Final = 60.0  # a member commits every 5 s, and drops a queue that was reset within 10 s
SET_AGAIN_S: Final = 10.0  # a broker that was killed has forgotten the offsets of its last seconds
_LOOK_S: Final = 0.5


def read_committed(admin: Admin, group: str, topics: list[str]) -> dict[Queue, int | None]:
    """Return the group's offset in each queue of the topics; None where it has none."""
    return {row.queue: row.offset for topic in topics for row in admin.offsets.get(group, topic)}


def move_group(
    admin: Admin,
    group: str,
    drained: Mapping[Queue, QueueBounds],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[Queue, int | None]:
    """Move the group to the end of each range, and return where it was. Queues that it has passed already stay as they are.

    All queues are checked before the first is moved.
    """
    topics = sorted({queue.topic for queue in drained})
    ends = {row.queue: row.end_offset for topic in topics for row in admin.topics.status(topic).queues}
    before = read_committed(admin, group, topics)
    moves = {
        queue: bounds.last
        for queue, bounds in sorted(drained.items())
        if needs_move(group, queue, bounds, before.get(queue), ends.get(queue, 0))
    }
    deadline_s, set_s = clock() + HOLD_S_MAX, -SET_AGAIN_S
    left = moves
    while left:
        if clock() > deadline_s:
            queue, offset = min(left.items())
            raise DrainError(
                f"Group '{group}' was moved to {offset} of {queue}, but does not stay there: a member commits older offsets, or "
                "the broker is started again and again. Run the job again."
            )
        if clock() - set_s >= SET_AGAIN_S:
            admin.offsets.set(group, left)
            set_s = clock()
        else:
            sleep(_LOOK_S)
        left = _find_behind(admin, group, left)
    return {queue: before.get(queue) for queue in drained}


def _find_behind(admin: Admin, group: str, moves: Mapping[Queue, int]) -> dict[Queue, int]:
    """Return the queues in which the group is before its new offset."""
    committed = read_committed(admin, group, sorted({queue.topic for queue in moves}))
    return {queue: offset for queue, offset in moves.items() if (committed.get(queue) or 0) < offset}
