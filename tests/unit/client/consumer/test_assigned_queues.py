"""The restart of an assigned queue at another offset."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.assigned_queues import AssignedQueues
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import parse_start
from skyrocket.client.consumer.subscription import make_subscription
from skyrocket.client.queues import Queue

QUEUE = Queue("t", "broker-a", 0)


class RecordsStarts(AssignedQueues):
    """Records where queues start, instead of pulling them."""

    def __init__(self) -> None:
        session: Any = SimpleNamespace(now_ms=lambda: 0)
        store: Any = None
        super().__init__(
            session, "g", store, ConsumerLimits(), parse_start("first"), on_messages=lambda _: None, is_paused=lambda _: False
        )
        self.starts: list[int] = []

    def _start_queue(self, _queue: Queue, _subscription: object, offset: int, *_: object) -> None:
        self.starts.append(offset)


async def test_queue_is_dropped_as_soon_as_its_broker_names_another_offset():
    """Housekeeping restarts a queue whose pull loop has ended, but not one that was dropped: the reset offset is not lost."""
    queues = RecordsStarts()
    assigned = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    queues.by_queue[QUEUE] = assigned
    queues._restart_soon(assigned, 3)
    assert assigned.process_queue.dropped
    await asyncio.sleep(0)
    assert queues.starts == [3]
