"""Tracing with the OpenTelemetry SDK: spans of sends and handlers, and how they belong together."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from skyrocket.client import Consumer, Message, NoNameserverError, Outcome, Producer, Received, TransactionProducer, sync
from skyrocket.client.helpers import Tracing
from tests.client.consumer_support import QUICK, make_topic, take
from tests.client.servers import Servers, reader, until
from tests.support.waiting import WAIT_S_MAX


class Spans:
    """A tracer provider that keeps finished spans in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the finished spans of this name, in the order in which they finished."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def ending(self, end: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.endswith(end)]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def within(self, name: str):
        """Open a span of the application."""
        return self.provider.get_tracer("application").start_as_current_span(name)


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    yield found
    found.provider.shutdown()


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent is not None else None


def traceparent(span: ReadableSpan) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


async def handle_all(servers: Servers, topic: str, count: int, handle, spans: Spans, *, batch: int = 0) -> None:
    """Run a consumer with this handler until `count` of its spans have finished."""
    consumer = Consumer(
        servers.nameserver, group=topic, start="first", consumer_limits=QUICK, tracing=spans.tracing, concurrency=1
    )
    consumer.on(topic, batch=batch)(handle)
    async with consumer:
        await until(lambda: len(spans.named(f"process {topic}")) >= count, "all are handled")


async def test_caller_send_and_handler_are_one_trace(servers: Servers, spans: Spans):
    topic = servers.topic("traced")
    seen: list[tuple[str, int]] = []

    async def handle(message: Received) -> None:
        seen.append((message.properties["traceparent"], trace.get_current_span().get_span_context().span_id))

    async with Producer(servers.nameserver, tracing=spans.tracing) as producer:
        with spans.within("checkout"):
            message = Message(topic, b"12345", tag="paid", keys=["o-7"], sharding_key="u-1", properties={"own": "kept"})
            receipt = await producer.send(message)
    assert message.properties == {"own": "kept"}, "the user's message is unchanged"
    await handle_all(servers, topic, 1, handle, spans)
    outer, sent, processed = spans.one("checkout"), spans.one(f"send {topic}"), spans.one(f"process {topic}")
    assert (parent(sent), parent(processed)) == (outer.context.span_id, sent.context.span_id)
    assert sent.context.trace_id == processed.context.trace_id == outer.context.trace_id
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]
    assert seen == [(traceparent(sent), processed.context.span_id)], "the handler runs inside its span"
    assert (sent.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    common = {
        "messaging.system": "rocketmq",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(receipt.queue.queue_id),
        "messaging.message.id": receipt.message_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("o-7",),
        "messaging.rocketmq.message.group": "u-1",
    }
    sends = {"messaging.operation.name": "send", "messaging.operation.type": "send"}
    processes = {"messaging.operation.name": "process", "messaging.operation.type": "process"}
    assert dict(sent.attributes) == {**common, **sends}
    assert dict(processed.attributes) == {**common, **processes, "messaging.consumer.group.name": topic}


async def test_every_kind_of_send_carries_its_context(servers: Servers, spans: Spans):
    topic = servers.topic("ways")
    options = {"tracing": spans.tracing, "stamp": True}
    async with (
        TransactionProducer(servers.nameserver, check=lambda _: Outcome.COMMIT, **options) as producer,
        Producer(servers.nameserver, linger_ms=5, **options) as lingering,
        reader(servers) as read,
    ):
        await producer.send(Message(topic, b"plain"))
        await producer.send_soon(Message(topic, b"soon"))
        await producer.send_oneway(Message(topic, b"oneway"))
        await producer.send_batch([Message(topic, b"batch 1"), Message(topic, b"batch 2")])
        await producer.transaction(Message(topic, b"transaction"), lambda *_: Outcome.COMMIT)
        await asyncio.gather(*(lingering.send(Message(topic, b"linger %d" % number)) for number in (1, 2)))
        found = {message.body: message.properties.get("traceparent") for message in await read.at_least(topic, 8)}
    sends = {traceparent(span) for span in spans.named(f"send {topic}")}
    assert len(sends) == 7, "one span for each send, and one for the batch"
    assert set(found.values()) == sends
    assert found[b"batch 1"] == found[b"batch 2"]
    assert found[b"linger 1"] != found[b"linger 2"], "messages of an automatic batch keep their own spans"


async def test_request_and_reply_are_one_trace(servers: Servers, spans: Spans):
    topic = servers.topic("asked")
    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver, tracing=spans.tracing) as producer:
        consumer = Consumer(servers.nameserver, group=topic, start="first", consumer_limits=QUICK, tracing=spans.tracing)

        @consumer.on(topic)
        async def answer(request: Received) -> None:
            await producer.reply_to(request, b"yes")

        async with consumer:
            reply = await producer.request(Message(topic, b"?"), timeout_ms=int(WAIT_S_MAX * 1000))
        (replied,) = spans.ending("_REPLY_TOPIC")
        assert reply.properties["traceparent"] == traceparent(replied)
        assert parent(replied) == spans.one(f"process {topic}").context.span_id
        assert replied.context.trace_id == spans.one(f"send {topic}").context.trace_id


async def test_span_of_a_batch_handler_is_linked_to_every_send(servers: Servers, spans: Spans):
    topic = servers.topic("linked")

    def handle(messages: list[Received]) -> None:
        """A plain function, which runs in a thread."""

    await make_topic(servers, topic, 1)
    async with Producer(servers.nameserver, tracing=spans.tracing) as producer:
        for number in range(3):
            await producer.send(Message(topic, b"%d" % number))
    await handle_all(servers, topic, 1, handle, spans, batch=10)
    processed = spans.named(f"process {topic}")
    sent = [span.context.span_id for span in spans.named(f"send {topic}")]
    assert [link.context.span_id for span in processed for link in span.links] == sent
    assert all(span.parent is None for span in processed if len(span.links) > 1), "a span of several traces has no parent"


async def test_errors_are_recorded_in_the_spans(servers: Servers, spans: Spans):
    topic = servers.topic("wrong")
    calls: list[int] = []

    async def handle(message: Received) -> None:
        calls.append(message.reconsume_times)
        if len(calls) == 1:
            raise ValueError("not yet")

    async with Producer("127.0.0.1:1", tracing=spans.tracing) as nowhere:
        with pytest.raises(NoNameserverError):
            await nowhere.send(Message("nowhere", b"m"), timeout_ms=300)
    failed = spans.one("send nowhere")
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "NoNameserverError"
    async with Producer(servers.nameserver, tracing=spans.tracing) as producer:
        await producer.send(Message(topic, b"m"))
    await handle_all(servers, topic, 2, handle, spans)
    first, second = spans.named(f"process {topic}")
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert first.attributes["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    assert parent(first) == parent(second) == spans.one(f"send {topic}").context.span_id
    assert calls == [0, 1]


async def test_loop_opens_its_own_span(ours: Servers, spans: Spans):
    topic = ours.topic("looped")
    async with Producer(ours.nameserver, tracing=spans.tracing) as producer:
        await producer.send(Message(topic, b"m"))
    async with Consumer(ours.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK) as consumer:
        (message,) = await take(consumer, 1)
        with spans.tracing.processing(message), spans.within("inside"):
            pass
    processed = spans.one(f"process {topic}")
    assert parent(processed) == spans.one(f"send {topic}").context.span_id
    assert parent(spans.one("inside")) == processed.context.span_id


def test_span_of_the_caller_is_the_parent_in_the_sync_client(ours: Servers, spans: Spans):
    topic = ours.topic("waited")
    producer = sync.Producer(ours.nameserver, tracing=spans.tracing)
    consumer = sync.Consumer(ours.nameserver, group=topic, start="first", consumer_limits=QUICK, tracing=spans.tracing)

    async def hidden(_message: Received) -> None:
        with spans.within("inside"):
            consumer.stop()

    @consumer.on(topic)
    def handle(message: Received) -> object:
        return hidden(message)

    with producer, spans.within("request"):
        producer.send(Message(topic, b"m"))
    consumer.run()
    sent, processed = spans.one(f"send {topic}"), spans.one(f"process {topic}")
    assert parent(sent) == spans.one("request").context.span_id
    assert parent(processed) == sent.context.span_id
    assert parent(spans.one("inside")) == processed.context.span_id


async def test_no_context_is_sent_when_nothing_is_recorded(ours: Servers):
    topic = ours.topic("unrecorded")
    async with Producer(ours.nameserver, tracing=Tracing(NoOpTracerProvider())) as producer, reader(ours) as read:
        await producer.send(Message(topic, b"m"))
        (message,) = await read.at_least(topic, 1)
    assert "traceparent" not in message.properties


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_the_client_does_not_import_opentelemetry():
    assert python("import sys, skyrocket.client, skyrocket.client.sync; print('opentelemetry' in sys.modules)") == "False"


def test_missing_package_error_says_what_to_install():
    code = """
import sys
sys.modules["opentelemetry"] = None
try:
    import skyrocket.client.helpers.tracing
except ImportError as error:
    print(error)
"""
    assert python(code) == "Tracing needs OpenTelemetry. Install it with: pip install skyrocketmq[otel]"
