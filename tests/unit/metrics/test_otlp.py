"""Metrics reach a collector over gRPC: a real server of OpenTelemetry's protocol takes them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc

from skyrocket.metrics import otlp
from skyrocket.metrics.family import Measured, counter, gauge, histogram
from skyrocket.metrics.health import Health, Phase
from skyrocket.metrics.histogram import Histogram
from skyrocket.metrics.monitoring import Monitoring
from skyrocket.metrics.page import MetricsPage
from skyrocket.net.errors import NetError
from tests.support.ports import free_port
from tests.support.waiting import WAIT_S_MAX, wait_until

SENT = counter("rocketmq_messages_in_total", "Messages stored.", "topic")
OPEN = gauge("skyrocket_connections", "Open connections.")
TOOK = histogram("skyrocket_turn_seconds", "Turns.", "stage")
LABELS = {"cluster": "Lab", "node_id": "broker-a", "otel_scope_name": "broker-meter"}


class Collector(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()

    def Export(self, request: Any, context: Any) -> Any:
        self.headers.append(dict(context.invocation_metadata()))
        self.requests.append(request)
        self.arrived.set()
        return metrics_service_pb2.ExportMetricsServiceResponse()


@contextmanager
def collecting(port: int = 0) -> Iterator[tuple[Collector, int]]:
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(2))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(collector, server)
    chosen = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield collector, chosen
    finally:
        server.stop(0).wait()


def a_page() -> MetricsPage:
    took = Histogram((0.1, 1.0))
    for seconds in (0.05, 0.5, 0.6, 7.0):
        took.observe(seconds)

    def collect() -> list[Measured]:
        return [
            Measured(SENT, [(("orders",), 12), (("payments",), 7)]),
            Measured(OPEN, [((), 2.5)]),
            Measured(TOOK, [(("append",), took.state())]),
        ]

    return MetricsPage(LABELS, lambda: 10, [collect])


def monitoring_to(port: int, *, interval_ms: int = 10) -> Monitoring:
    monitoring = Monitoring(Health("the broker"))
    monitoring.health.phase = Phase.SERVING
    monitoring.page = a_page()
    monitoring.begin(("", 0), (f"http://127.0.0.1:{port}", (("api-key", "k1"),), 3_000, interval_ms))
    return monitoring


def metrics_of(requests: list[Any]) -> list[Any]:
    measured = [each for request in requests for each in request.resource_metrics]
    return [metric for each in measured for scope in each.scope_metrics for metric in scope.metrics]


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


async def test_collector_gets_every_kind_of_metric_with_its_labels():
    with collecting() as (collector, port):
        monitoring = monitoring_to(port)
        try:
            assert await asyncio.to_thread(collector.arrived.wait, WAIT_S_MAX)
        finally:
            await monitoring.close()
    (measured,) = collector.requests[0].resource_metrics
    assert {each.key: each.value.string_value for each in measured.resource.attributes}["service.name"] == "skyrocket"
    (scope,) = measured.scope_metrics
    assert scope.scope.name == "broker-meter"
    found = {metric.name: metric for metric in scope.metrics}
    assert len(found) == len(scope.metrics), "each metric is sent once"
    assert found.keys() >= {SENT.name, OPEN.name, TOOK.name}
    sums = found[SENT.name].sum
    assert sums.is_monotonic
    own = {"cluster": "Lab", "node_id": "broker-a"}
    assert [(attributes(point), point.as_int) for point in sums.data_points] == [
        ({**own, "topic": "orders"}, 12),
        ({**own, "topic": "payments"}, 7),
    ]
    assert 0 < sums.data_points[0].start_time_unix_nano <= sums.data_points[0].time_unix_nano
    assert [point.as_double for point in found[OPEN.name].gauge.data_points] == [2.5]
    (point,) = found[TOOK.name].histogram.data_points
    assert (list(point.explicit_bounds), list(point.bucket_counts), point.count) == ([0.1, 1.0], [1, 2, 1], 4)
    assert point.sum == pytest.approx(8.15)
    assert collector.headers[0]["api-key"] == "k1"


async def test_collector_that_is_away_costs_one_line_and_gets_metrics_when_it_is_back(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    port = free_port()
    monitoring = monitoring_to(port)
    try:
        await asyncio.to_thread(wait_until, lambda: "cannot be sent" in caplog.text, "a failed export")
        with collecting(port) as (collector, _):
            assert await asyncio.to_thread(collector.arrived.wait, WAIT_S_MAX)
            await asyncio.to_thread(wait_until, lambda: "again" in caplog.text.splitlines()[-1], "the line about success")
    finally:
        await monitoring.close()
    failures = [record for record in caplog.records if "cannot be sent" in record.getMessage()]
    assert 1 <= len(failures) <= 2, "one line for an incident; the collector's end may be another one"


async def test_nothing_is_asked_of_a_server_that_stops():
    with collecting() as (collector, port):
        monitoring = monitoring_to(port)
        monitoring.health.phase = Phase.STOPPING
        await asyncio.sleep(0.1)
        await monitoring.close()
    assert collector.requests == []


async def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otlp, "grpc", None)
    with pytest.raises(NetError, match=r"pip install 'skyrocketmq\[otlp\]'"):
        monitoring_to(1)
