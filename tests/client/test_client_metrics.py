"""Metrics of producers and consumers, with the two real libraries: what is counted, under which names and labels."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from skyrocket.client import Consumer, Message, NoNameserverError, Producer, Received, RetryLater
from skyrocket.client.helpers import ClientMetrics
from skyrocket.client.helpers.metrics import OTHER_TOPIC, SEND_COST_TIME, TOPICS_MAX
from tests.client.consumer_support import QUICK, make_topic, numbered, send, take
from tests.client.servers import Servers
from tests.support.ports import free_port
from tests.support.waiting import WAIT_S_MAX

Counts = dict[tuple[str, tuple[tuple[str, str], ...]], int]
"""How many values a histogram has, or the value of a counter, by name and labels."""
COUNT = re.compile("_(count|total)$")


def by_prometheus() -> tuple[ClientMetrics, Callable[[], Counts]]:
    registry = prometheus_client.CollectorRegistry()

    def read() -> Counts:
        samples = [sample for family in registry.collect() for sample in family.samples if COUNT.search(sample.name)]
        return {(COUNT.sub("", one.name), tuple(sorted(one.labels.items()))): int(one.value) for one in samples}

    return ClientMetrics.prometheus(registry), read


def by_opentelemetry() -> tuple[ClientMetrics, Callable[[], Counts]]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)

    def read() -> Counts:
        data: Any = reader.get_metrics_data()
        scopes = [scope for measured in data.resource_metrics for scope in measured.scope_metrics] if data else []
        found = [(metric.name, point) for scope in scopes for metric in scope.metrics for point in metric.data.data_points]
        return {
            (name, tuple(sorted(point.attributes.items()))): getattr(point, "count", getattr(point, "value", None))
            for name, point in found
        }

    return ClientMetrics.opentelemetry(provider), read


@pytest.fixture(params=[by_prometheus, by_opentelemetry])
def measured(request: pytest.FixtureRequest) -> tuple[ClientMetrics, Callable[[], Counts]]:
    return request.param()


async def test_sends_deliveries_and_calls_of_handlers_are_counted(
    ours: Servers, measured: tuple[ClientMetrics, Callable[[], Counts]]
):
    metrics, read = measured
    topic = ours.topic("metrics")
    await make_topic(ours, topic, 1)
    done = asyncio.Event()
    attempts: list[str] = []

    async with Producer(ours.nameserver, interceptors=[metrics.of_producer()]) as producer:
        for _ in range(3):
            await producer.send(Message(topic, b"x"))
        await producer.send_batch([Message(topic, b"a"), Message(topic, b"b")])

    async def handle(message: Received) -> None:
        attempts.append(message.message_id)
        if len(attempts) == 1:
            raise RetryLater(1)
        if len(set(attempts)) == 5:
            done.set()

    group = f"g-{topic}"
    consumer = Consumer(
        ours.nameserver, group=group, interceptors=[metrics.of_consumer(group)], start="first", consumer_limits=QUICK
    )
    consumer.on(topic)(handle)
    async with consumer, asyncio.timeout(WAIT_S_MAX):
        await done.wait()
    counts = read()
    assert counts["rocketmq_send_cost_time", (("invocation_status", "success"), ("topic", topic))] == 4, "a batch is one send"
    own = (("consumer_group", group),)
    assert counts["rocketmq_delivery_latency", (*own, ("topic", topic))] == len(attempts)
    assert counts["rocketmq_process_time", (*own, ("invocation_status", "failure"), ("topic", topic))] == 1
    assert counts["rocketmq_process_time", (*own, ("invocation_status", "success"), ("topic", topic))] == len(attempts) - 1


async def test_messages_that_a_consumer_skips_are_counted_by_topic_and_reason(
    ours: Servers, measured: tuple[ClientMetrics, Callable[[], Counts]]
):
    metrics, read = measured
    topic = ours.topic("skips")
    await make_topic(ours, topic, 1)
    await send(ours, topic, numbered(20))
    consumer = Consumer(ours.nameserver, group=topic, topics=topic, start="first", consumer_limits=QUICK, skip_when_behind=4)
    metrics.watch(consumer, topic)
    assert read() == {}
    async with consumer:
        await take(consumer, 5)
        labels = (("consumer_group", topic), ("reason", "skip_when_behind"), ("topic", topic))
        assert read() == {("rocketmq_skipped_messages", labels): 15}
    assert read() == {("rocketmq_skipped_messages", labels): 15}, "a counter does not fall when its consumer is closed"


async def test_failed_sends_are_counted_as_failures(measured: tuple[ClientMetrics, Callable[[], Counts]]):
    metrics, read = measured
    async with Producer(f"127.0.0.1:{free_port()}", interceptors=[metrics.of_producer()]) as producer:
        with pytest.raises(NoNameserverError):
            await producer.send(Message("orders", b"x"), timeout_ms=200)
    assert read() == {("rocketmq_send_cost_time", (("invocation_status", "failure"), ("topic", "orders"))): 1}


def test_topics_beyond_the_bound_share_a_series():
    metrics, read = by_prometheus()
    for number in range(TOPICS_MAX + 5):
        metrics.record(SEND_COST_TIME, 1.0, f"topic-{number}", "success")
    counts = read()
    assert len(counts) == TOPICS_MAX + 1
    assert counts["rocketmq_send_cost_time", (("invocation_status", "success"), ("topic", OTHER_TOPIC))] == 5


def test_helpers_load_neither_library_until_one_is_asked_for():
    libraries = "{'prometheus_client', 'opentelemetry'}"
    code = f"import sys; from skyrocket.client.helpers import ClientMetrics; print({libraries} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT_S_MAX)
    assert done.stdout == "set()\n"
