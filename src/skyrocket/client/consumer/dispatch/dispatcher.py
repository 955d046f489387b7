"""The dispatcher: gives work batches of ready queues to workers, at most `concurrency` at a time.

A batch has up to 64 messages, so that fast handlers do not pay for the dispatch of each message. When a handler waits, idle
workers steal half of its pending messages, and then half of those. So no message waits while a worker is idle.

With `skip_older_than` or a rate limit, a batch has one message, or one list for a handler of lists: a message that waits in a
batch could become too old there, and would have used the rate up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.dispatch.completion import Completion
from skyrocket.client.consumer.dispatch.handler_runner import HandlerRunner
from skyrocket.client.consumer.dispatch.load_shedding import LoadShedding
from skyrocket.client.consumer.dispatch.rate_limit import RateLimit
from skyrocket.client.consumer.dispatch.work_batch import WorkBatch
from skyrocket.client.consumer.handlers import CallResult
from skyrocket.client.received import Received

log = logging.getLogger(__name__)

BATCH_MESSAGES_MAX = 64
STEAL_AFTER_S = 0.002  # before idle workers steal from a thread that has not finished its batch
BATCH_MS_MAX = 1_000  # after that, pending messages of a batch go back to the process queue
_LIST_OWNER = "lists"  # owner of the batches behind `next_messages`, in whatever task it is called


class Dispatcher:
    """Gives work batches to handlers, or to the user's own loop."""

    def __init__(
        self,
        completion: Completion,
        runner: HandlerRunner | None,
        now_ms: Callable[[], int],
        *,
        concurrency: int,
        handler_batch_max: int,
        is_paused: Callable[[AssignedQueue], bool],
        shedding: LoadShedding | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        """Without a `runner` no handler is called: the user's loop asks with `next_batch`. `handler_batch_max` is the largest
        batch size of the handlers."""
        self._completion = completion
        self._runner = runner
        self._now_ms = now_ms
        self._concurrency = concurrency
        self._is_choosy = shedding is not None or rate_limit is not None
        is_timed = rate_limit is not None or (shedding is not None and shedding.depends_on_time)
        self._messages_max = max(handler_batch_max, 1 if is_timed else BATCH_MESSAGES_MAX)
        self._is_paused = is_paused
        self._shedding = shedding
        self._rate_limit = rate_limit
        self._rate_timer: asyncio.TimerHandle | None = None
        self._ready: deque[AssignedQueue] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._waiters: deque[asyncio.Future[None]] = deque()  # callers of next_batch
        self._closed = False
        self._is_steal_scheduled = False
        self._steal_after_s = STEAL_AFTER_S if runner is not None and runner.uses_threads else 0.0
        self.batches: set[WorkBatch] = set()

    # --- queues

    def add_ready(self, assigned: AssignedQueue) -> None:
        """Add a queue that has messages to dispatch."""
        if not assigned.is_ready:
            assigned.is_ready = True
            self._ready.append(assigned)
        if self._runner is not None:
            self._start_workers()
        elif self._waiters:
            self._wake_one()

    def tick(self, queues: Iterable[AssignedQueue]) -> None:
        """Do the periodic work: finish what is done, put old pending messages back, and look at all queues again."""
        now_ms = self._now_ms()
        for batch in list(self.batches):
            self._completion.finish_done(batch)
            process_queue = batch.assigned.process_queue
            if now_ms - batch.started_ms > BATCH_MS_MAX and not process_queue.orderly and batch.pending:
                process_queue.put_back(batch.take_pending())
        for assigned in queues:
            if assigned.process_queue.waiting:
                self.add_ready(assigned)
        if self._shedding is not None:
            for topic, count in self._shedding.take_changes().items():
                log.warning("The consumer is behind: %d messages of topic '%s' were skipped.", count, topic)

    def _take_batch(self) -> WorkBatch | None:
        ready = self._ready
        for _ in range(len(ready)):
            assigned = ready.popleft()
            assigned.is_ready = False
            if self._is_paused(assigned) or self._closed:
                continue
            process_queue, now_ms = assigned.process_queue, self._now_ms()
            messages = self._take_chosen(assigned) if self._is_choosy else process_queue.take(self._messages_max, now_ms)
            if not messages:
                continue
            if process_queue.waiting and not process_queue.orderly:
                assigned.is_ready = True
                ready.append(assigned)
            return self._add_batch(assigned, messages, now_ms)
        return None

    def _take_chosen(self, assigned: AssignedQueue) -> list[Received]:
        """Take the next messages that load shedding leaves, as many as the rate limit allows now. The others are finished."""
        process_queue, shedding, rate_limit = assigned.process_queue, self._shedding, self._rate_limit
        while True:
            most = self._messages_max if rate_limit is None else min(self._messages_max, rate_limit.available(self._now_ms()))
            if not most:
                self._wait_for_rate(assigned)
                return []
            messages = process_queue.take(most, self._now_ms())
            if messages and shedding is not None:
                messages, dropped = shedding.select(messages, time.time_ns() // 1_000_000)
                if dropped:
                    process_queue.finish(dropped)
                    assigned.wake()
                if not messages:
                    continue
            if rate_limit is not None:
                rate_limit.use(len(messages))
            return messages

    def _wait_for_rate(self, assigned: AssignedQueue) -> None:
        """Look at the queue again when the rate limit allows a message."""
        if not assigned.is_ready:
            assigned.is_ready = True
            self._ready.append(assigned)
        if self._rate_timer is None:
            assert self._rate_limit is not None
            self._rate_timer = asyncio.get_running_loop().call_later(self._rate_limit.wait_ms() / 1000, self._on_rate)

    def _on_rate(self) -> None:
        self._rate_timer = None
        if self._closed:
            return
        if self._runner is not None:
            self._start_workers()
        for _ in range(len(self._waiters)):
            self._wake_one()

    def _add_batch(self, assigned: AssignedQueue, messages: list[Received], now_ms: int) -> WorkBatch:
        batch = WorkBatch(assigned, messages, now_ms, self._now_ms)
        self.batches.add(batch)
        return batch

    # --- handlers

    def _start_workers(self) -> None:
        while self._ready and len(self._workers) < self._concurrency and (batch := self._take_batch()) is not None:
            self._start_worker(batch)

    def _start_worker(self, batch: WorkBatch) -> None:
        loop = asyncio.get_running_loop()
        self._workers.add(loop.create_task(self._work(batch)))
        if not self._is_steal_scheduled:
            self._is_steal_scheduled = True
            if self._steal_after_s:
                loop.call_later(self._steal_after_s, self._steal)
            else:
                loop.call_soon(self._steal)  # runs after the worker's first step

    def _steal(self) -> None:
        """Start a worker on half of the fullest batch. Each new worker schedules this again, so all idle workers soon help."""
        self._is_steal_scheduled = False
        if not (self.batches or self._ready) or len(self._workers) >= self._concurrency or self._closed:
            return
        batch = self._take_batch()
        if batch is None:
            fullest = max(self.batches, key=lambda known: len(known.pending), default=None)
            if fullest is None or fullest.assigned.process_queue.orderly or not (messages := fullest.steal_half()):
                return
            batch = self._add_batch(fullest.assigned, messages, self._now_ms())
        self._start_worker(batch)

    async def _work(self, first: WorkBatch) -> None:
        """Handle batches until no queue is ready. The worker removes itself: a callback of its task would cost another step."""
        assert self._runner is not None
        batch: WorkBatch | None = first
        result = CallResult()
        try:
            with result:
                while batch is not None:
                    try:
                        await self._runner.run(batch)
                    finally:
                        self.batches.discard(batch)
                        await self._completion.complete(batch)
                    if not self._ready:
                        break
                    await asyncio.sleep(0)  # handlers that never wait must not block the event loop
                    batch = self._take_batch()
        finally:
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            if result.error is not None:
                log.error("A worker failed. Its messages are delivered again later.", exc_info=result.error)
            if not self._closed:
                self._start_workers()

    # --- the user's own loop

    async def next_batch(self, owner: object = None) -> WorkBatch | None:
        """Wait for a batch. `owner` is the task or thread that works on it, by default the current task. None: closed."""
        while not self._closed:
            batch = self._take_batch()
            if batch is not None:
                batch.owner = owner or asyncio.current_task()
                return batch
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return None

    async def next_messages(self, most: int) -> list[Received]:
        """Acknowledge what the last call returned, and wait for the next messages. Empty: the consumer is closed."""
        self.acknowledge_owned(_LIST_OWNER)
        batch = await self.next_batch(_LIST_OWNER)
        if batch is None:
            return []
        while len(batch.current_list) < most and (message := batch.take_next()) is not None:
            batch.current_list.append(message)
        messages = batch.current_list
        self.release(batch)
        return messages or await self.next_messages(most)  # empty: the queue was revoked at this moment

    def release(self, batch: WorkBatch) -> None:
        """Put the pending messages of a batch back after the user's loop has left it, and finish what is done."""
        assigned = batch.assigned
        self._completion.finish_done(batch)
        assigned.process_queue.put_back(batch.take_pending())
        if not batch.has_current and batch in self.batches:
            self.batches.discard(batch)
            assigned.batches_in_progress -= 1
        if assigned.process_queue.waiting:
            self.add_ready(assigned)

    def acknowledge(self, batch: WorkBatch) -> None:
        """Acknowledge the message that the user's loop worked on last, and release the batch."""
        batch.done.extend(batch.take_current())
        self.release(batch)

    def acknowledge_owned(self, owner: object = None) -> None:
        """Acknowledge all batches of an owner, by default the current task, which asks for the next message."""
        owner = owner or asyncio.current_task()
        for batch in [batch for batch in self.batches if batch.owner == owner]:
            self.acknowledge(batch)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    # --- end

    def close(self) -> None:
        """Dispatch no more messages. Callers of `next_batch` get None."""
        self._closed = True
        if self._rate_timer is not None:
            self._rate_timer.cancel()
        while self._waiters:
            self._wake_one()
        for batch in list(self.batches):
            batch.assigned.process_queue.put_back(batch.take_pending())

    async def drain(self, most_ms: int) -> bool:
        """Wait for all batches to end, for at most `most_ms`. Returns whether they did."""
        until = asyncio.get_running_loop().time() + most_ms / 1000
        while self.batches or self._workers:
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            if self._workers:
                await asyncio.wait(self._workers, timeout=left_s)
            else:
                await asyncio.sleep(min(0.01, left_s))
        return True

    async def abandon(self) -> int:
        """Cancel the handlers in the event loop and leave those in threads. Returns how many there were."""
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        left = len(self.batches) + len(workers)
        self.batches.clear()
        self._workers.clear()  # a task that was cancelled before its first step has not removed itself
        return left
