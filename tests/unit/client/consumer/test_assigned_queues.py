"""The restart of an assigned queue at another offset, and commits around it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.assigned_queues import AssignedQueues
from skyrocket.client.consumer.engine import ConsumerEngine
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import parse_start
from skyrocket.client.consumer.subscription import make_subscription
from skyrocket.client.queues import Queue

QUEUE = Queue("t", "broker-a", 0)


class RecordsStarts(AssignedQueues):
    """Records where queues start, instead of pulling them."""

    def __init__(self, store: Any = None) -> None:
        session: Any = SimpleNamespace(now_ms=lambda: 0)
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


class SlowOffsetStore:
    """Writes offsets when the test allows it."""

    def __init__(self) -> None:
        self.may_write = asyncio.Event()
        self.written: list[dict[Queue, int]] = []

    async def read(self, _queue: Queue) -> int | None:
        return None

    async def write(self, offsets: Mapping[Queue, int], *, timeout_ms: int | None = None) -> list[Queue]:
        await self.may_write.wait()
        self.written.append(dict(offsets))
        return list(offsets)


async def test_offset_from_before_a_reset_is_not_committed_after_it():
    """A commit under way ends before the queue pulls from the reset offset; and none begins between the two."""
    store = SlowOffsetStore()
    queues = RecordsStarts(store)
    assigned = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    queues.by_queue[QUEUE] = assigned
    under_way = asyncio.create_task(queues.commit())
    await asyncio.sleep(0)
    queues._restart_soon(assigned, 3)
    for _ in range(5):
        await asyncio.sleep(0)
    assert queues.starts == [], "the old offset is still on its way to the broker"
    store.may_write.set()
    await under_way
    await asyncio.gather(*queues._tasks)
    assert (store.written, queues.starts) == ([{QUEUE: 10}], [3])


async def test_queue_that_is_revoked_before_it_restarts_leaves_the_reset_offset_to_the_next_member():
    store = SlowOffsetStore()
    store.may_write.set()
    queues = RecordsStarts(store)
    assigned = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    queues.by_queue[QUEUE] = assigned
    queues._restart_soon(assigned, 3)
    await queues.revoke([QUEUE])  # before the restart has begun
    await asyncio.gather(*queues._tasks)
    assert (store.written, queues.starts) == ([{QUEUE: 3}], [])


async def test_dropped_queue_has_no_offset_to_commit():
    store = SlowOffsetStore()
    store.may_write.set()
    queues = RecordsStarts(store)
    queues.by_queue[QUEUE] = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    queues.by_queue[QUEUE].process_queue.drop()
    await queues.commit()
    assert store.written == []


async def test_housekeeping_does_not_restart_a_queue_that_is_being_revoked():
    """The commit of a revoked queue may wait for a broker that is away. The queue is not pulled again meanwhile."""
    store = SlowOffsetStore()
    queues = RecordsStarts(store)
    assigned = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    assigned.pull_task = asyncio.ensure_future(asyncio.sleep(1_000))
    queues.by_queue[QUEUE] = assigned
    revoking = asyncio.ensure_future(queues.revoke([QUEUE]))
    await asyncio.wait([assigned.pull_task])
    async with asyncio.timeout(5):  # a restart would wait for the commit
        await housekeep(queues)
    assert not assigned.process_queue.dropped, "results of its handlers still count"
    store.may_write.set()
    assert await revoking == [QUEUE]
    assert (queues.by_queue, queues.starts) == ({}, [])


async def test_housekeeping_restarts_a_queue_whose_pull_loop_has_ended():
    queues = RecordsStarts()
    assigned = AssignedQueue(QUEUE, make_subscription("t", "*", 0), 10, 0, ConsumerLimits())
    assigned.pull_task = asyncio.ensure_future(asyncio.sleep(0))
    queues.by_queue[QUEUE] = assigned
    await assigned.pull_task
    await housekeep(queues)
    assert queues.starts == [10]


async def housekeep(queues: AssignedQueues) -> None:
    """Run the engine's housekeeping once over these queues."""
    engine: Any = SimpleNamespace(
        session=queues._session,
        assigned=queues,
        dispatcher=SimpleNamespace(tick=lambda _: None),
        settings=SimpleNamespace(orderly=True, broadcasting=False),
    )
    await ConsumerEngine._tick(engine)
