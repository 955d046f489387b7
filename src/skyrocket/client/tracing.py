"""OpenTelemetry: a span for each send and for each call of a handler; its context travels in the message's properties.

    tracing = Tracing()
    Producer("127.0.0.1:9876", tracing=tracing)
    Consumer("127.0.0.1:9876", group="coupons", tracing=tracing)        # handlers get their spans by themselves

    async for message in consumer:                                      # the body of a loop is the user's, and so is its span
        with tracing.processing(message):
            ...

The context is written as the propagator has it: W3C's `traceparent` and `tracestate`, unless the application chose another.
Attributes have the names of OpenTelemetry's conventions for messaging. Only who imports this module needs the package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context, attach, detach
    from opentelemetry.propagators.textmap import TextMapPropagator
except ImportError as missing:
    raise ImportError("Tracing needs OpenTelemetry: install skyrocketmq[otel].") from missing

import skyrocket
from skyrocket.client.handlers import Handle, Handler
from skyrocket.client.message import Message
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received
from skyrocket.client.sending import Sending

SYSTEM: Final = "rocketmq"
_LINKS_MAX = 128  # the SDK keeps no more of a span

Attributes = dict[str, Any]


class Tracing:
    """One for a whole application, or one for each client. Without a provider or propagator: the application's own."""

    def __init__(
        self, tracer_provider: trace.TracerProvider | None = None, *, propagator: TextMapPropagator | None = None
    ) -> None:
        self._tracer = trace.get_tracer("skyrocket.client", skyrocket.__version__, tracer_provider)
        self._propagator = propagator

    def _context_of(self, message: Received) -> Context:
        return (self._propagator or propagate.get_global_textmap()).extract(message.properties, Context())

    # --- producers

    def sending(self, messages: Sequence[Message]) -> Sending:
        """A span around a send. It has begun already; the messages carry its context."""
        first = messages[0]
        span = self._tracer.start_span(
            f"send {first.topic}", kind=trace.SpanKind.PRODUCER, attributes=_about_sending(messages)
        )
        carrier: dict[str, str] = {}
        (self._propagator or propagate.get_global_textmap()).inject(carrier, trace.set_span_in_context(span))
        return _Traced([_with(message, carrier) for message in messages] if carrier else messages, span)

    # --- consumers

    @contextmanager
    def processing(self, messages: Received | Sequence[Received], group: str = "") -> Iterator[trace.Span]:
        """A span around the handling of a message, or of several. One message's is a child of the span that sent it; several may
        come from as many traces, and are linked to them."""
        several = [messages] if isinstance(messages, Received) else messages
        origins = [self._context_of(message) for message in several[:_LINKS_MAX]]
        sent_by = [trace.get_current_span(origin).get_span_context() for origin in origins]
        with self._tracer.start_as_current_span(
            f"process {several[0].topic}",
            context=origins[0] if len(several) == 1 and sent_by[0].is_valid else None,
            kind=trace.SpanKind.CONSUMER,
            attributes=_about_processing(several, group),
            links=[trace.Link(context) for context in sent_by if context.is_valid],
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def handlers(self, handlers: Mapping[str, Handler], group: str) -> dict[str, Handler]:
        """The same handlers, each call in a span of its own."""
        return {topic: known._replace(handle=self._traced(known, group)) for topic, known in handlers.items()}

    def _traced(self, handler: Handler, group: str) -> Handle:
        handle: Any = handler.handle

        async def here(messages: Received | list[Received]) -> object:
            with self.processing(messages, group):
                return await handle(messages)

        def there(messages: Received | list[Received]) -> object:
            with self.processing(messages, group):
                result = handle(messages)
                return asyncio.run(result) if asyncio.iscoroutine(result) else result

        return here if handler.is_async else there


class _Traced(Sending):
    __slots__ = ("_span", "_token")

    def __init__(self, messages: Sequence[Message], span: trace.Span) -> None:
        super().__init__(messages)
        self._span = span

    def acknowledged(self, receipt: Receipt) -> Receipt:
        if self._span.is_recording():
            self._span.set_attribute("messaging.destination.partition.id", str(receipt.queue.queue_id))
            if len(self.messages) == 1:
                self._span.set_attribute("messaging.message.id", receipt.message_id)
        return receipt

    def __enter__(self) -> Self:
        self._token = attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None) -> None:
        detach(self._token)
        if error is not None:
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(trace.StatusCode.ERROR, str(error))
            if isinstance(error, Exception):
                self._span.record_exception(error)
        self._span.end()


def _with(message: Message, carrier: Mapping[str, str]) -> Message:
    return replace(message, properties={**message.properties, **carrier})


def _about_sending(messages: Sequence[Message]) -> Attributes:
    first = messages[0]
    about = _about("send", first.topic)
    if len(messages) > 1:
        return about | {"messaging.batch.message_count": len(messages)}
    about["messaging.message.body.size"] = len(first.body)
    return about | _rocketmq(first.tag, list(first.keys), first.sharding_key)


def _about_processing(messages: Sequence[Received], group: str) -> Attributes:
    first = messages[0]
    about = _about("process", first.topic)
    if group:
        about["messaging.consumer.group.name"] = group
    if len(messages) > 1:
        return about | {"messaging.batch.message_count": len(messages)}
    about["messaging.message.id"] = first.message_id
    about["messaging.message.body.size"] = first.size_bytes
    about["messaging.destination.partition.id"] = str(first.queue_id)
    return about | _rocketmq(first.tag, first.keys, first.sharding_key)


def _about(operation: str, topic: str) -> Attributes:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _rocketmq(tag: str, keys: list[str], sharding_key: str) -> Attributes:
    """What this system's messages have beside others'; left out where it is empty."""
    about = {"message.tag": tag, "message.keys": keys, "message.group": sharding_key}
    return {f"messaging.rocketmq.{name}": value for name, value in about.items() if value}
