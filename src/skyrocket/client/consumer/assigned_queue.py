"""A queue that is assigned to this consumer: its process queue, and the signals between its pull loop and the handlers."""

from __future__ import annotations

import asyncio

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLock
from skyrocket.client.consumer.process_queue import ProcessQueue
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.system_names import RETRY_PREFIX

_IDLE_CHECK_MS = 10


class AssignedQueue:
    """A queue that is assigned to this consumer."""

    __slots__ = (
        *("_waiter", "batches_in_progress", "committed_offset", "is_failing", "is_leaving", "is_ready", "is_retry"),
        *("process_queue", "pull_task", "queue", "restart_offset", "subscription", "suggested_broker_id"),
    )

    def __init__(
        self,
        queue: Queue,
        subscription: Subscription,
        offset: int,
        now_ms: int,
        limits: ConsumerLimits,
        *,
        orderly: bool = False,
        lock: QueueLock | None = None,
        committed_offset: int | None = None,
    ) -> None:
        self.queue = queue
        self.subscription = subscription
        self.process_queue: ProcessQueue[Received] = ProcessQueue(offset, now_ms, orderly=orderly, lock=lock, limits=limits)
        self.is_retry = queue.topic.startswith(RETRY_PREFIX)
        self.committed_offset = committed_offset  # the offset that the broker, or the file, has
        self.restart_offset: int | None = None  # of a dropped queue that is about to restart
        self.suggested_broker_id = 0  # the broker id to pull from; 0 is the master
        self.is_failing = False  # the last pull failed: only a change is logged
        self.is_leaving = False  # is being revoked: its pull loop has ended on purpose
        self.is_ready = False  # is among the queues that wait for a handler
        self.batches_in_progress = 0  # work batches that are with handlers
        self.pull_task: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def offset_to_commit(self) -> int | None:
        """The offset of the group in this queue. None: the queue was dropped, and another member or queue object has it."""
        return self.restart_offset if self.process_queue.dropped else self.process_queue.commit_offset

    async def wait_for_change(self, delay_ms: int) -> None:
        """Wait until `wake` is called, for at most `delay_ms`."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(delay_ms / 1000, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def wake(self) -> None:
        """Make the pull loop look again: the cache has room, or a broker is back."""
        if self._waiter is not None:
            _resolve(self._waiter)

    async def wait_until_idle(self, most_ms: int) -> bool:
        """Wait until no handler works on the queue, for at most `most_ms`. Returns whether it is idle."""
        for _ in range(most_ms // _IDLE_CHECK_MS):
            if not self.batches_in_progress:
                break
            await asyncio.sleep(_IDLE_CHECK_MS / 1000)
        return not self.batches_in_progress


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
