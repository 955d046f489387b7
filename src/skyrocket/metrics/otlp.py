"""OpenTelemetry's protocol over gRPC: the metrics of a server, sent to a collector now and then.

    event loop:  page.write(OtlpWriter) ──▶ one Metric for each family, with its points
    thread:      every interval: ask the loop, then ExportMetricsServiceRequest ──gRPC──▶ collector, at metricsGrpcExporterTarget

Counters and histograms are cumulative since the start of the process. A collector that cannot be reached costs one line of the
log and one when it is back; nothing is kept for it. `opentelemetry-proto` and `grpcio` are needed: the extra `otlp`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, NamedTuple

from skyrocket import __version__
from skyrocket.metrics.family import Family, LabelValues, MetricKind
from skyrocket.metrics.histogram import HistogramState
from skyrocket.metrics.page import MetricsPage
from skyrocket.net.errors import NetError

try:
    import grpc
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.metrics.v1 import metrics_pb2
except ImportError:  # an extra
    grpc = None

log = logging.getLogger(__name__)

PAGE_S: Final = 8.0  # for the event loop to build the metrics
SCOPE_LABEL: Final = "otel_scope_name"  # a label for Prometheus only: here it is the scope itself


class OtlpTarget(NamedTuple):
    """Where metrics go: host:port, or http://host:port; https:// encrypts."""

    address: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout_ms: int = 3_000
    interval_ms: int = 60_000

    def open_channel(self) -> Any:
        scheme, separator, place = self.address.partition("://")
        if not separator:
            return grpc.insecure_channel(self.address)
        return grpc.secure_channel(place, grpc.ssl_channel_credentials()) if scheme == "https" else grpc.insecure_channel(place)


class OtlpWriter:
    """Writes each family as a Metric. What `row` returns is the metric again."""

    def __init__(self, server_labels: Mapping[str, str], started_ns: int, now_ns: int) -> None:
        self._of_server = [_attribute(name, value) for name, value in server_labels.items() if name != SCOPE_LABEL]
        self._times = {"start_time_unix_nano": started_ns, "time_unix_nano": now_ns}
        self._now_ns = now_ns
        self._metric: Any = None

    def head(self, family: Family) -> Any:
        metric = self._metric = metrics_pb2.Metric(name=family.name, description=family.note)
        match family.kind:
            case MetricKind.COUNTER:
                metric.sum.is_monotonic = True
                metric.sum.aggregation_temporality = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
            case MetricKind.HISTOGRAM:
                metric.histogram.aggregation_temporality = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
            case MetricKind.GAUGE:
                metric.gauge.SetInParent()
        return metric

    def row(self, family: Family, values: LabelValues, value: float | HistogramState) -> Any:
        attributes = [*self._of_server, *map(_attribute, family.labels, values)]
        if isinstance(value, HistogramState):
            counts = [after - before for before, after in zip([0, *value.counts], value.counts, strict=False)]
            self._metric.histogram.data_points.add(
                attributes=attributes,
                count=value.counts[-1],
                sum=value.total,
                bucket_counts=counts,
                explicit_bounds=value.bounds,
                **self._times,
            )
            return self._metric
        number = {"as_int": value} if isinstance(value, int) else {"as_double": value}
        if family.kind is MetricKind.COUNTER:
            self._metric.sum.data_points.add(attributes=attributes, **number, **self._times)
        else:
            self._metric.gauge.data_points.add(attributes=attributes, **number, time_unix_nano=self._now_ns)
        return self._metric


def _attribute(name: str, value: str) -> Any:
    return common_pb2.KeyValue(key=name, value=common_pb2.AnyValue(string_value=value))


class OtlpExporter:
    """Sends the metrics of a page. `start` raises NetError where the libraries are missing."""

    def __init__(
        self, target: OtlpTarget, page: Callable[[], MetricsPage | None], wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._target = target
        self._page = page
        self._wall_ns = wall_ns
        self._started_ns = wall_ns()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def start(self) -> None:
        """Call it in the event loop of the server."""
        if grpc is None:
            raise NetError("metricsExporterType=OTLP_GRPC needs two libraries: pip install 'skyrocketmq[otlp]'.")
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="skyrocket-otlp", daemon=True)
        self._thread.start()
        log.info("Metrics are sent to %s every %d ms.", self._target.address, self._target.interval_ms)

    def close(self) -> None:
        """End the thread. An export that is under way has its time-out."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(self._target.timeout_ms / 1000 + PAGE_S)

    # --- in the thread

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._target.open_channel() as channel:
            service = metrics_service_pb2_grpc.MetricsServiceStub(channel)
            while not self._stopped.wait(self._target.interval_ms / 1000):
                try:
                    self._export(service, loop)
                except (grpc.RpcError, FutureTimeoutError) as error:
                    self._note_failure(error)
                else:
                    self._note_success()

    def _export(self, service: Any, loop: asyncio.AbstractEventLoop) -> None:
        page = self._page()
        if page is None:  # the server starts or stops
            return
        writer = OtlpWriter(page.server_labels, self._started_ns, self._wall_ns())
        building = asyncio.run_coroutine_threadsafe(page.write(writer), loop)
        try:
            written = building.result(PAGE_S)
        finally:
            building.cancel()
        request = metrics_service_pb2.ExportMetricsServiceRequest()
        measured = request.resource_metrics.add()
        measured.resource.attributes.add(key="service.name").value.string_value = "skyrocket"
        measured.resource.attributes.add(key="service.version").value.string_value = __version__
        scope = measured.scope_metrics.add()
        scope.scope.name = page.server_labels.get(SCOPE_LABEL, "skyrocket")
        scope.metrics.extend({id(metric): metric for metric in written}.values())  # a metric was returned for each of its rows
        service.Export(request, timeout=self._target.timeout_ms / 1000, metadata=self._target.headers)

    def _note_failure(self, error: Exception) -> None:
        if not self._is_failing:
            why = error.code().name if isinstance(error, grpc.RpcError) else "the event loop was too busy"
            log.warning("Metrics cannot be sent to %s: %s. It is tried again.", self._target.address, why)
        self._is_failing = True

    def _note_success(self) -> None:
        if self._is_failing:
            log.info("Metrics are sent to %s again.", self._target.address)
        self._is_failing = False
