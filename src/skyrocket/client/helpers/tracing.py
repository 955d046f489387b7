"""OpenTelemetry tracing: a span for each send and each call of a handler. The trace context travels in the message's properties.

    tracing = Tracing()
    Producer("127.0.0.1:9876", tracing=tracing)
    Consumer("127.0.0.1:9876", group="coupons", tracing=tracing)        # each call of a handler runs in a span

    async for message in consumer:                                      # a loop opens its own spans
        with tracing.processing(message):
            ...

The propagator encodes the context: W3C's `traceparent` and `tracestate`, unless the application configured another. Attributes
follow OpenTelemetry's conventions for messaging. Only this module needs the OpenTelemetry package.
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
    raise ImportError("Tracing needs OpenTelemetry. Install it with: pip install skyrocketmq[otel]") from missing

import skyrocket
from skyrocket.client.consumer.handlers import HandlerFunction, MessageHandler
from skyrocket.client.message import Message
from skyrocket.client.producer.send_strategy import SendScope
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received

SYSTEM: Final = "rocketmq"
_LINKS_MAX = 128  # the SDK's bound for one span

Attributes = dict[str, Any]


class Tracing:
    """Creates spans. One object can serve a whole application. Without a provider or propagator it uses the global ones."""

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
        details: Attributes,
        parent: Context | None = None,
        links: Sequence[trace.Link] = (),
    ) -> Iterator[trace.Span]:
        """Open a span and make it current. An error in the body is recorded and raised again."""
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": topic,
            **details,
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
    def sending(self, messages: Sequence[Message]) -> Iterator[SendScope]:
        """Open a span around a send. The messages of the scope carry its context."""
        with self._span("send", messages[0].topic, trace.SpanKind.PRODUCER, _send_attributes(messages)) as span:
            carrier: dict[str, str] = {}
            (self._propagator or propagate.get_global_textmap()).inject(carrier)
            yield _TracedScope([_with_context(message, carrier) for message in messages] if carrier else messages, span)

    # --- consumers

    @contextmanager
    def processing(self, messages: Received | Sequence[Received], group: str = "") -> Iterator[trace.Span]:
        """Open a span around the handling of one message or of several. The span of one message is a child of the span that sent
        it; the span of several is linked to the spans that sent them."""
        several = [messages] if isinstance(messages, Received) else messages
        origins = [self._origin(message) for message in several[:_LINKS_MAX]]
        sent_by = [trace.get_current_span(origin).get_span_context() for origin in origins]
        parent = origins[0] if len(several) == 1 and sent_by[0].is_valid else None
        links = [trace.Link(context) for context in sent_by if context.is_valid]
        details = _process_attributes(several, group)
        with self._span("process", several[0].topic, trace.SpanKind.CONSUMER, details, parent, links) as span:
            yield span

    def handlers(self, handlers: Mapping[str, MessageHandler], group: str) -> dict[str, MessageHandler]:
        """Wrap handlers so that each call runs in a span."""
        return {topic: known._replace(function=self._wrap(known, group)) for topic, known in handlers.items()}

    def _wrap(self, handler: MessageHandler, group: str) -> HandlerFunction:
        handle: Any = handler.function

        async def run_async(messages: Received | list[Received]) -> object:
            with self.processing(messages, group):
                return await handle(messages)

        def run_sync(messages: Received | list[Received]) -> object:
            with self.processing(messages, group):
                result = handle(messages)
                return asyncio.run(result) if asyncio.iscoroutine(result) else result

        return run_async if handler.is_async else run_sync


class _TracedScope(SendScope):
    __slots__ = ("_span",)

    def __init__(self, messages: Sequence[Message], span: trace.Span) -> None:
        super().__init__(messages)
        self._span = span

    def acknowledge(self, receipt: Receipt) -> Receipt:
        if len(self.messages) == 1:
            self._span.set_attribute("messaging.message.id", receipt.message_id)
        self._span.set_attribute("messaging.destination.partition.id", str(receipt.queue.queue_id))
        return receipt


def _with_context(message: Message, carrier: Mapping[str, str]) -> Message:
    return msgspec.structs.replace(message, properties={**message.properties, **carrier})


def _send_attributes(messages: Sequence[Message]) -> Attributes:
    first = messages[0]
    if len(messages) > 1:
        return {"messaging.batch.message_count": len(messages)}
    return {"messaging.message.body.size": len(first.body), **_rocketmq(first.tag, list(first.keys), first.sharding_key)}


def _process_attributes(messages: Sequence[Received], group: str) -> Attributes:
    first = messages[0]
    attributes: Attributes = {"messaging.consumer.group.name": group} if group else {}
    if len(messages) > 1:
        return attributes | {"messaging.batch.message_count": len(messages)}
    return attributes | {
        "messaging.message.id": first.message_id,
        "messaging.message.body.size": first.size_bytes,
        "messaging.destination.partition.id": str(first.queue_id),
        **_rocketmq(first.tag, first.keys, first.sharding_key),
    }


def _rocketmq(tag: str, keys: list[str], sharding_key: str) -> Attributes:
    """Return the attributes that are specific to RocketMQ; empty ones are left out."""
    attributes = {"message.tag": tag, "message.keys": keys, "message.group": sharding_key}
    return {f"messaging.rocketmq.{name}": value for name, value in attributes.items() if value}
