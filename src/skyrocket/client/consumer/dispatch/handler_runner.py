"""Runs handlers on a work batch, one message after another: in the event loop, or in a thread. The batch collects the results."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Mapping

from skyrocket.client.consumer.dispatch.work_batch import WorkBatch
from skyrocket.client.consumer.handlers import CallResult, HandlerFailure, MessageHandler, RetryLater, Verdict, verdict_of
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received


class HandlerRunner:
    """Runs the registered handlers."""

    def __init__(
        self, handlers: Mapping[str, MessageHandler], pool: concurrent.futures.Executor | None, *, manual_commit: bool
    ) -> None:
        """`handlers` is topic -> handler; the handler of "" serves all other topics. With `manual_commit`, the verdicts of the
        handlers say when to commit."""
        self._handlers = handlers
        self._pool = pool
        self._manual_commit = manual_commit

    @property
    def uses_threads(self) -> bool:
        return self._pool is not None

    async def run(self, batch: WorkBatch) -> None:
        """Handle a batch until it is empty or may not continue. A batch of a retry topic may need several handlers."""
        while (message := batch.take_next()) is not None:
            handler = self._handlers.get(message.topic) or self._handlers.get("")
            if handler is None:  # retried since a time when the group had a handler for the topic
                error = ConfigurationError(f"Topic '{message.topic}' has no handler.")
                goes_on = self._record_result(batch, [message], CallResult(error))
            elif handler.is_async and not handler.batch and not self._manual_commit:
                goes_on = await self._run_single(batch, message, handler)
            elif handler.is_async:
                goes_on = await self._run_async(batch, message, handler)
            else:
                loop = asyncio.get_running_loop()
                goes_on = await loop.run_in_executor(self._pool, self._run_in_thread, batch, message, handler)
            if not goes_on:
                return

    async def _run_single(self, batch: WorkBatch, first: Received, handler: MessageHandler) -> bool:
        """Do what `_run_async` does, faster, for the usual handler: one message at a time, and returns None.

        As long as no call fails, a message costs little more than the call itself.
        """
        result, function, done, topic = CallResult(), handler.function, batch.done.append, first.topic
        pending, process_queue = batch.pending, batch.assigned.process_queue
        popleft, is_locked = pending.popleft, process_queue.lock is not None
        message = first
        while True:
            with result:
                while message.topic == topic:
                    value = await function(message)  # type: ignore[misc]
                    if value is not None:
                        result.value = value
                        break
                    done(message)
                    if not pending or process_queue.dropped or (is_locked and not batch.may_continue()):
                        return True
                    message = popleft()
            if result.error is None and result.value is None:
                pending.appendleft(message)
                return True
            if not self._record_result(batch, [message], result):
                return False
            following = batch.take_next()
            if following is None:
                return True
            message = following

    async def _run_async(self, batch: WorkBatch, first: Received, handler: MessageHandler) -> bool:
        result, function, count = CallResult(), handler.function, handler.batch
        message: Received | None = first
        while message is not None and message.topic == first.topic:
            messages = batch.take_list(message, count) if count else [message]
            with result:
                result.value = await function(messages if count else message)  # type: ignore[misc]
            if not self._record_result(batch, messages, result):
                return False
            message = batch.take_next()
        if message is not None:
            batch.pending.appendleft(message)
        return True

    def _run_in_thread(self, batch: WorkBatch, first: Received, handler: MessageHandler) -> bool:
        result, function, count = CallResult(), handler.function, handler.batch
        message: Received | None = first
        while message is not None and message.topic == first.topic:
            messages = batch.take_list(message, count) if count else [message]
            with result:
                result.value = function(messages if count else message)
                if asyncio.iscoroutine(result.value):  # a plain function around an async one, such as a partial
                    result.value = asyncio.run(result.value)
            if not self._record_result(batch, messages, result):
                return False
            message = batch.take_next()
        if message is not None:
            batch.pending.appendleft(message)
        return True

    def _record_result(self, batch: WorkBatch, messages: list[Received], result: CallResult) -> bool:
        """Record the result of a call. Returns whether the batch continues: an orderly batch ends at its first failure."""
        verdict = Verdict.DONE if result.value is None else verdict_of(result.value)
        error = result.error
        if error is None and verdict is Verdict.LATER:
            error = RetryLater()
        if error is not None:
            batch.failures.append(HandlerFailure(messages, error))
            return not batch.assigned.process_queue.orderly
        if self._manual_commit:
            batch.verdicts.append((messages, verdict))
            return verdict is not Verdict.ROLLBACK
        batch.done.extend(messages)
        return True

    async def run_directly(self, message: Received) -> tuple[Verdict | None, Exception | None]:
        """Handle one message that an administrator sent. Returns the verdict, or None and the exception.

        Both are None if the topic has no handler.
        """
        handler = self._handlers.get(message.topic) or self._handlers.get("")
        result = CallResult()
        if handler is None:
            return None, None
        argument = [message] if handler.batch else message
        with result:
            if handler.is_async:
                result.value = await handler.function(argument)  # type: ignore[misc]
            else:
                result.value = await asyncio.get_running_loop().run_in_executor(self._pool, handler.function, argument)
        return (verdict_of(result.value), None) if result.error is None else (None, result.error)
