"""A queue that a consumer holds at present: what is cached of it, and what its pull loop and its handlers tell each other."""

from __future__ import annotations

import asyncio
from operator import attrgetter

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.locks import QueueLease
from skyrocket.client.consumer.process_queue import ConsumerQueue
from skyrocket.client.consumer.subscription import Subscription
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.system_names import RETRY_PREFIX

_LOOK_MS = 10
_offset_of = attrgetter("queue_offset")
_size_of = attrgetter("size_bytes")


class HeldQueue:
    __slots__ = (
        *("_waiter", "hands", "is_failing", "is_in_line", "is_retry", "kept", "puller", "queue", "state", "subscription"),
        "suggested_id",
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
        lease: QueueLease | None = None,
        kept: int | None = None,
    ) -> None:
        self.queue = queue
        self.subscription = subscription
        self.state: ConsumerQueue[Received] = ConsumerQueue(
            offset, now_ms, orderly=orderly, lease=lease, limits=limits, offset_of=_offset_of, size_of=_size_of
        )
        self.is_retry = queue.topic.startswith(RETRY_PREFIX)
        self.kept = kept  # the offset that the store has
        self.suggested_id = 0  # the broker id to pull from: 0 is the master
        self.is_failing = False  # its last pull failed: a change is worth a line in the log
        self.is_in_line = False  # among those that wait for a handler
        self.hands = 0  # batches that are with handlers
        self.puller: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def changed(self, delay_ms: int) -> None:
        """Until something has changed, or the time is over."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(delay_ms / 1000, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def wake(self) -> None:
        """Its pull loop should look again: there is room, or a broker is back."""
        if self._waiter is not None:
            _end(self._waiter)

    async def idle(self, most_ms: int) -> bool:
        """Whether no handler has anything of it, at the latest after this time."""
        for _ in range(most_ms // _LOOK_MS):
            if not self.hands:
                break
            await asyncio.sleep(_LOOK_MS / 1000)
        return not self.hands


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
