"""Interceptors of a producer: code of the application around every send.

    class Tenants(ProducerInterceptor):
        def before_send(self, message):
            return msgspec.structs.replace(message, properties={**message.properties, "tenant": "blue"})

        def after_send(self, message, receipt, error):
            count(message.topic, "failed" if error else "sent")

    Producer("127.0.0.1:9876", interceptors=[Tenants()])

They are called in their order before a send, and in the reverse order after it, in the event loop: they must not block. An error
in an interceptor is logged and changes nothing: the message is sent as without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any

from skyrocket.client.message import Message
from skyrocket.client.producer.send_strategy import OpenScope, SendScope
from skyrocket.client.receipt import Receipt

log = logging.getLogger(__name__)


class ProducerInterceptor:
    """Base class of interceptors. Override what you need."""

    def before_send(self, message: Message) -> Message:
        """Return the message to send: this one, or a changed copy to the same topic. Called once, whatever the attempts."""
        return message

    def after_send(self, message: Message, receipt: Receipt | None, error: BaseException | None) -> None:
        """Take note of the end of a send, with all its attempts. `message` is as it was sent.

        `receipt` is None after an error, and for `send_oneway`. The messages of `send_batch` share one receipt.
        """

    def measure_send(
        self, messages: Sequence[Message], receipt: Receipt | None, error: BaseException | None, seconds: float
    ) -> None:
        """Take note of how long a send took, with all its attempts. Called once for the messages of `send_batch`."""


class _LoggedErrors:
    """A context that logs an error of an interceptor instead of raising it: the error must not touch the message."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False  # no error, or the cancellation of the task, or the end of the process
        name = getattr(self._function, "__qualname__", self._function)
        log.error("The interceptor %s failed. The message goes on without it.", name, exc_info=error)
        return True


def call_interceptor(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an interceptor. When it raises, the error is logged, and None returned."""
    with _LoggedErrors(function):
        return function(*arguments)
    return None


class InterceptedScope(SendScope):
    """The context around one send with interceptors. Inside it is the scope of a tracing, or one that does nothing."""

    __slots__ = ("_began_s", "_inner", "_interceptors", "_receipt", "_scope")

    def __init__(self, messages: Sequence[Message], interceptors: Sequence[ProducerInterceptor], open_inner: OpenScope) -> None:
        self._began_s = perf_counter()
        for interceptor in interceptors:
            messages = [_before_send(interceptor, message) for message in messages]
        super().__init__(messages)
        self._interceptors = interceptors
        self._inner = open_inner(messages)
        self._scope: SendScope | None = None
        self._receipt: Receipt | None = None

    def acknowledge(self, receipt: Receipt) -> Receipt:
        assert self._scope is not None, "the scope is open"
        self._receipt = receipt
        return self._scope.acknowledge(receipt)

    def __enter__(self) -> InterceptedScope:
        self._scope = self._inner.__enter__()
        self.messages = self._scope.messages
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inner.__exit__(kind, error, trace)
        seconds = perf_counter() - self._began_s
        for interceptor in reversed(self._interceptors):
            call_interceptor(interceptor.measure_send, self.messages, self._receipt, error, seconds)
            for message in self.messages:
                call_interceptor(interceptor.after_send, message, self._receipt, error)


def _before_send(interceptor: ProducerInterceptor, message: Message) -> Message:
    changed = call_interceptor(interceptor.before_send, message)
    if isinstance(changed, Message) and changed.topic == message.topic:
        return changed
    if changed is not None:
        log.error("%s.before_send must return a Message to the same topic, not %r.", type(interceptor).__qualname__, changed)
    return message


def intercept_sends(interceptors: Sequence[ProducerInterceptor], open_inner: OpenScope) -> OpenScope:
    """Return the function that opens the scope of a send: `open_inner` when there are no interceptors."""
    chosen = tuple(interceptors)
    return (lambda messages: InterceptedScope(messages, chosen, open_inner)) if chosen else open_inner
