"""Calling what a user wrote: whatever it raises is noted, and told where it belongs, instead of ending what called it.

Calling handlers with what is in a hand, one after another: in the loop, or in a thread. The hand notes what comes of it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from skyrocket.client.consumer.dispatch.work_batch import Hand
from skyrocket.client.consumer.handlers import Failure, Handler, RetryLater, Verdict, verdict_of
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.received import Received


class Trial:
    """Notes an exception instead of letting it through: what a handler raises is the message's fate, not ours."""

    __slots__ = ("error", "result")

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.result: object = None

    def __enter__(self) -> Trial:
        self.error = self.result = None
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False  # nothing, or the end of this task or process
        self.error = error
        return True


class Calling:
    def __init__(self, handlers: Mapping[str, Handler], pool: concurrent.futures.Executor | None, *, by_hand: bool) -> None:
        """`by_hand`: handlers say when to commit, with their verdicts."""
        self._handlers = handlers
        self._pool = pool
        self._by_hand = by_hand

    @property
    def uses_threads(self) -> bool:
        return self._pool is not None

    async def work_off(self, hand: Hand) -> None:
        """Until it is empty, or must not be gone on with. A hand of a retry topic may need several handlers."""
        while (message := hand.next()) is not None:
            handler = self._handlers.get(message.topic) or self._handlers.get("")
            if handler is None:  # retried since a time when the group had one
                error = ConfigurationError(f"Topic '{message.topic}' has no handler.")
                goes_on = self._noted(hand, [message], Trial(error))
            elif handler.is_async and not handler.batch and not self._by_hand:
                goes_on = await self._one_by_one(hand, message, handler)
            elif handler.is_async:
                goes_on = await self._here(hand, message, handler)
            else:
                goes_on = await asyncio.get_running_loop().run_in_executor(self._pool, self._there, hand, message, handler)
            if not goes_on:
                return

    async def _one_by_one(self, hand: Hand, first: Received, handler: Handler) -> bool:
        """As `_here`, for the usual handler, which returns nothing: as long as all goes well, a message costs little more than
        the call."""
        trial, handle, done, take, topic = Trial(), handler.handle, hand.done.append, hand.next, first.topic
        message: Received | None = first
        while message is not None and message.topic == topic:
            with trial:
                while message is not None and message.topic == topic:
                    trial.result = await handle(message)  # type: ignore[misc]
                    if trial.result is not None:
                        break
                    done(message)
                    message = take()
            if trial.error is None and trial.result is None:
                break
            assert message is not None
            if not self._noted(hand, [message], trial):
                return False
            message = take()
        if message is not None:
            hand.rest.appendleft(message)
        return True

    async def _here(self, hand: Hand, first: Received, handler: Handler) -> bool:
        trial, handle, batch = Trial(), handler.handle, handler.batch
        message: Received | None = first
        while message is not None and message.topic == first.topic:
            messages = hand.more(message, batch) if batch else [message]
            with trial:
                trial.result = await handle(messages if batch else message)  # type: ignore[misc]
            if not self._noted(hand, messages, trial):
                return False
            message = hand.next()
        if message is not None:
            hand.rest.appendleft(message)
        return True

    def _there(self, hand: Hand, first: Received, handler: Handler) -> bool:
        trial, handle, batch = Trial(), handler.handle, handler.batch
        message: Received | None = first
        while message is not None and message.topic == first.topic:
            messages = hand.more(message, batch) if batch else [message]
            with trial:
                trial.result = handle(messages if batch else message)
                if asyncio.iscoroutine(trial.result):  # a plain function that hides an async one, such as a partial
                    trial.result = asyncio.run(trial.result)
            if not self._noted(hand, messages, trial):
                return False
            message = hand.next()
        if message is not None:
            hand.rest.appendleft(message)
        return True

    def _noted(self, hand: Hand, messages: list[Received], trial: Trial) -> bool:
        """Whether to go on with this hand: an orderly one ends where something failed."""
        verdict = Verdict.DONE if trial.result is None else verdict_of(trial.result)
        error = trial.error
        if error is None and verdict is Verdict.LATER:
            error = RetryLater()
        if error is not None:
            hand.failures.append(Failure(messages, error))
            return not hand.held.state.orderly
        if self._by_hand:
            hand.verdicts.append((messages, verdict))
            return verdict is not Verdict.ROLLBACK
        hand.done.extend(messages)
        return True

    async def directly(self, message: Received) -> tuple[Verdict | None, Any]:
        """One message, for who asks what its handler makes of it: the verdict, or None and what was raised."""
        handler = self._handlers.get(message.topic) or self._handlers.get("")
        trial = Trial()
        if handler is None:
            return None, None
        given = [message] if handler.batch else message
        with trial:
            if handler.is_async:
                trial.result = await handler.handle(given)  # type: ignore[misc]
            else:
                trial.result = await asyncio.get_running_loop().run_in_executor(self._pool, handler.handle, given)
        return (verdict_of(trial.result), None) if trial.error is None else (None, trial.error)
