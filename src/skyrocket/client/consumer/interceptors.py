"""Interceptors of a consumer: code of the application around every call of a handler.

    class Slow(ConsumerInterceptor):
        def before_consume(self, messages): ...
        def after_consume(self, messages, verdict, error): ...

    Consumer("127.0.0.1:9876", group="coupons", interceptors=[Slow()])

They are called in their order before a call, and in the reverse order after it, where the handler runs: in the event loop, or
in the handler's thread. An error in an interceptor is logged and changes nothing: the message is handled and acknowledged
as without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from skyrocket.client.consumer.handlers import MessageHandler, Verdict, verdict_of
from skyrocket.client.producer.interceptors import call_interceptor
from skyrocket.client.received import Received


class ConsumerInterceptor:
    """Base class of interceptors. Override what you need."""

    def before_consume(self, messages: Sequence[Received]) -> None:
        """Take note that a handler is called, with one message, or with the messages of a handler with `batch`."""

    def after_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None) -> None:
        """Take note of the end of the call. The verdict is LATER when the messages are delivered again. `error` is what the
        handler raised."""

    def measure_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None, seconds: float) -> None:
        """Take note of how long the call took."""


def intercept_handlers(
    handlers: Mapping[str, MessageHandler], interceptors: Sequence[ConsumerInterceptor]
) -> dict[str, MessageHandler]:
    """Wrap handlers so that the interceptors are called around each call."""
    return {topic: handler._replace(function=_wrap(handler, interceptors)) for topic, handler in handlers.items()}


def _wrap(handler: MessageHandler, interceptors: Sequence[ConsumerInterceptor]) -> Callable[[Any], Any]:
    handle: Any = handler.function

    def begin(messages: Received | list[Received]) -> tuple[list[Received], float]:
        several = [messages] if isinstance(messages, Received) else messages
        for interceptor in interceptors:
            call_interceptor(interceptor.before_consume, several)
        return several, perf_counter()

    def end(begun: tuple[list[Received], float], value: object, error: Exception | None) -> None:
        several, began_s = begun
        seconds = perf_counter() - began_s
        verdict = Verdict.LATER if error is not None else verdict_of(value)
        for interceptor in reversed(interceptors):
            call_interceptor(interceptor.measure_consume, several, verdict, error, seconds)
            call_interceptor(interceptor.after_consume, several, verdict, error)

    async def run_async(messages: Received | list[Received]) -> object:
        begun = begin(messages)
        try:
            value = await handle(messages)
        except Exception as error:
            end(begun, None, error)
            raise
        end(begun, value, None)
        return value

    def run_sync(messages: Received | list[Received]) -> object:
        begun = begin(messages)
        try:
            value = handle(messages)
            if asyncio.iscoroutine(value):  # a plain function around an async one, such as a partial
                value = asyncio.run(value)
        except Exception as error:
            end(begun, None, error)
            raise
        end(begun, value, None)
        return value

    return run_async if handler.is_async else run_sync
