"""Completion: what happens to messages after their handlers have run.

                  consumed      failed
concurrent        finished      sent back to the broker; if that fails too, handled here again after a delay
broadcasting      finished      finished, with a log line: a retry would concern this member only
orderly           finished      the queue pauses, then the same message comes again; after retries_max retries it goes to
                                the group's retry topic, where the broker makes it a dead letter
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from skyrocket.client.consumer.assigned_queue import AssignedQueue
from skyrocket.client.consumer.dispatch.redelivery import Redelivery
from skyrocket.client.consumer.dispatch.retry_delay import UNLIMITED_RETRIES, suspend_delay_ms
from skyrocket.client.consumer.dispatch.work_batch import WorkBatch, drain
from skyrocket.client.consumer.handlers import HandlerFailure, RetryLater, Verdict
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.received import Received

log = logging.getLogger(__name__)


class Completion:
    """Completes work batches: finishes consumed messages, retries failed ones."""

    def __init__(
        self,
        redelivery: Redelivery,
        limits: ConsumerLimits,
        now_ms: Callable[[], int],
        *,
        broadcasting: bool,
        retries_max: int | None,
        on_ready: Callable[[AssignedQueue], None],
    ) -> None:
        """`on_ready` is called when a queue may be dispatched again."""
        self._redelivery = redelivery
        self._limits = limits
        self._now_ms = now_ms
        self._broadcasting = broadcasting
        self._retries_max = UNLIMITED_RETRIES if retries_max is None else retries_max
        self._on_ready = on_ready

    def finish_done(self, batch: WorkBatch) -> None:
        """Finish the messages that are done so far. Call it in the event loop, at any time."""
        if batch.done:
            batch.assigned.process_queue.finish(drain(batch.done))
            batch.assigned.wake()

    async def complete(self, batch: WorkBatch) -> None:
        """Complete a batch that no worker works on any more."""
        assigned = batch.assigned
        process_queue = assigned.process_queue
        if batch.done:
            process_queue.finish(batch.done)
            batch.done.clear()
        try:
            while batch.verdicts:
                self._apply_verdict(assigned, *batch.verdicts.popleft())
            while batch.failures:
                failure = batch.failures.popleft()
                log.warning(
                    "The handler of topic %s failed for %d message(s), the first is %s: %r",
                    failure.messages[0].topic,
                    len(failure.messages),
                    failure.messages[0].message_id,
                    failure.error,
                    exc_info=None if isinstance(failure.error, RetryLater) else failure.error,
                )
                if process_queue.orderly:
                    await self._retry_in_order(batch, failure)
                else:
                    await self.redeliver(assigned, failure)
        finally:
            if batch.pending:
                process_queue.put_back(batch.take_pending())
            assigned.batches_in_progress -= 1
            assigned.wake()
            if process_queue.waiting:
                self._on_ready(assigned)

    # --- concurrent

    async def redeliver(self, assigned: AssignedQueue, failure: HandlerFailure) -> None:
        """Send failed messages back to their broker. Those that no broker accepts are handled here again after a delay."""
        process_queue = assigned.process_queue
        request = failure.error if isinstance(failure.error, RetryLater) else None
        messages = failure.messages
        if request is not None and request.messages is not None:
            chosen = {id(message) for message in request.messages}
            messages = [message for message in failure.messages if id(message) in chosen]
            process_queue.finish(message for message in failure.messages if id(message) not in chosen)
        if self._broadcasting:
            log.warning("%d message(s) are skipped: a broadcasting consumer does not retry.", len(messages))
            process_queue.finish(messages)
            return
        messages = [message for message in messages if process_queue.is_unfinished(message)]  # others were overdue and sent back
        delay_level = request.delay_level if request is not None else 0
        accepted = await asyncio.gather(*(self._redelivery.send_back(message, delay_level) for message in messages))
        process_queue.finish(message for message, is_accepted in zip(messages, accepted, strict=True) if is_accepted)
        kept = [message for message, is_accepted in zip(messages, accepted, strict=True) if not is_accepted]
        if kept:
            for message in kept:
                message.record.reconsume_times += 1
            asyncio.get_running_loop().call_later(self._limits.send_back_again_ms / 1000, self._put_back, assigned, kept)

    def _put_back(self, assigned: AssignedQueue, messages: list[Received]) -> None:
        if not assigned.process_queue.dropped:
            assigned.process_queue.put_back(messages)
            self._on_ready(assigned)

    async def send_back_overdue(self, assigned: AssignedQueue) -> None:
        """Send back the messages whose handler takes too long. The result of that handler does not count."""
        process_queue = assigned.process_queue
        late = process_queue.overdue(self._now_ms())
        for message in late:
            log.warning(
                "The handler of message %s has not returned in %d ms. The message is sent back.",
                message.message_id,
                process_queue.limits.handler_ms,
            )
        if late:
            accepted = await asyncio.gather(*(self._redelivery.send_back(message) for message in late))
            process_queue.finish(message for message, is_accepted in zip(late, accepted, strict=True) if is_accepted)
            assigned.wake()

    # --- orderly

    async def _retry_in_order(self, batch: WorkBatch, failure: HandlerFailure) -> None:
        """Put failed messages back and pause the queue, or give a message up that has had all its retries."""
        process_queue = batch.assigned.process_queue
        again: list[Received] = []
        for message in failure.messages:
            is_exhausted = message.record.reconsume_times >= self._retries_max
            if is_exhausted and await self._redelivery.send_to_retry_topic(message, self._retries_max):
                process_queue.finish([message])
            else:
                message.record.reconsume_times += 1
                again.append(message)
        if again:
            requested_ms = failure.error.suspend_ms if isinstance(failure.error, RetryLater) else None
            delay_ms = suspend_delay_ms(requested_ms, self._limits)
            process_queue.put_back([*again, *batch.take_pending()], self._now_ms() + delay_ms)
            self._notify_ready_after(batch.assigned, delay_ms)

    def _apply_verdict(self, assigned: AssignedQueue, messages: list[Received], verdict: Verdict) -> None:
        assigned.process_queue.hold_for_commit(messages)
        if verdict is Verdict.COMMIT:
            assigned.process_queue.commit()
        elif verdict is Verdict.ROLLBACK:
            delay_ms = suspend_delay_ms(None, self._limits)
            assigned.process_queue.rollback(self._now_ms() + delay_ms)
            self._notify_ready_after(assigned, delay_ms)

    def _notify_ready_after(self, assigned: AssignedQueue, delay_ms: int) -> None:
        asyncio.get_running_loop().call_later(delay_ms / 1000 + 0.001, self._on_ready, assigned)
