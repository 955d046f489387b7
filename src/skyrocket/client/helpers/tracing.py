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
from typing import Any, Final

import msgspec

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
except ImportError as missing:
    raise ImportError("Tracing needs OpenTelemetry: install skyrocketmq[otel].") from missing

import skyrocket
from skyrocket.client.consumer.handlers import Handle, Handler
from skyrocket.client.message import Message
from skyrocket.client.producer.send_scope import Sending
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received

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

    @contextmanager
    def _span(
        self,
        operation: str,
        topic: str,
        kind: trace.SpanKind,
        about: Attributes,
        parent: Context | None = None,
        links: Sequence[trace.Link] = (),
    ) -> Iterator[trace.Span]:
        """A current span. What is raised in it is noted, and goes on."""
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": topic,
            **about,
        }
        name = f"{operation} {topic}"
        with self._tracer.start_as_current_span(name, parent, kind=kind, attributes=attributes, links=links) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def _origin(self, message: Received) -> Context:
        return (self._propagator or propagate.get_global_textmap()).extract(message.properties, Context())

    # --- producers

    @contextmanager
    def sending(self, messages: Sequence[Message]) -> Iterator[Sending]:
        """A span around a send, whose context the messages carry."""
        with self._span("send", messages[0].topic, trace.SpanKind.PRODUCER, _about_sending(messages)) as span:
            carrier: dict[str, str] = {}
            (self._propagator or propagate.get_global_textmap()).inject(carrier)
            yield _Traced([_with(message, carrier) for message in messages] if carrier else messages, span)

    # --- consumers

    @contextmanager
    def processing(self, messages: Received | Sequence[Received], group: str = "") -> Iterator[trace.Span]:
        """A span around the handling of a message, or of several. One message's is a child of the span that sent it; several may
        come from as many traces, and are linked to them."""
        several = [messages] if isinstance(messages, Received) else messages
        origins = [self._origin(message) for message in several[:_LINKS_MAX]]
        sent_by = [trace.get_current_span(origin).get_span_context() for origin in origins]
        parent = origins[0] if len(several) == 1 and sent_by[0].is_valid else None
        links = [trace.Link(context) for context in sent_by if context.is_valid]
        about = _about_processing(several, group)
        with self._span("process", several[0].topic, trace.SpanKind.CONSUMER, about, parent, links) as span:
            yield span

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
    __slots__ = ("_span",)

    def __init__(self, messages: Sequence[Message], span: trace.Span) -> None:
        super().__init__(messages)
        self._span = span

    def acknowledged(self, receipt: Receipt) -> Receipt:
        if len(self.messages) == 1:
            self._span.set_attribute("messaging.message.id", receipt.message_id)
        self._span.set_attribute("messaging.destination.partition.id", str(receipt.queue.queue_id))
        return receipt


def _with(message: Message, carrier: Mapping[str, str]) -> Message:
    return msgspec.structs.replace(message, properties={**message.properties, **carrier})


def _about_sending(messages: Sequence[Message]) -> Attributes:
    first = messages[0]
    if len(messages) > 1:
        return {"messaging.batch.message_count": len(messages)}
    return {"messaging.message.body.size": len(first.body), **_rocketmq(first.tag, list(first.keys), first.sharding_key)}


def _about_processing(messages: Sequence[Received], group: str) -> Attributes:
    first = messages[0]
    about: Attributes = {"messaging.consumer.group.name": group} if group else {}
    if len(messages) > 1:
        return about | {"messaging.batch.message_count": len(messages)}
    return about | {
        "messaging.message.id": first.message_id,
        "messaging.message.body.size": first.size_bytes,
        "messaging.destination.partition.id": str(first.queue_id),
        **_rocketmq(first.tag, first.keys, first.sharding_key),
    }


def _rocketmq(tag: str, keys: list[str], sharding_key: str) -> Attributes:
    """What this system's messages have beside others'; left out where it is empty."""
    about = {"message.tag": tag, "message.keys": keys, "message.group": sharding_key}
    return {f"messaging.rocketmq.{name}": value for name, value in about.items() if value}
