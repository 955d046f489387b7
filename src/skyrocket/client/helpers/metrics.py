"""Metrics of producers and consumers, for the registry that the application has: prometheus-client's, or OpenTelemetry's.

    metrics = ClientMetrics.prometheus()                       # or ClientMetrics.opentelemetry(meter_provider)
    Producer("127.0.0.1:9876", interceptors=[metrics.of_producer()])
    consumer = Consumer("127.0.0.1:9876", group="coupons", interceptors=[metrics.of_consumer("coupons")], skip_when_behind=1_000)
    metrics.watch(consumer, "coupons")                         # for the counter

| histogram, in milliseconds   | labels                              | of                                                       |
|------------------------------|-------------------------------------|----------------------------------------------------------|
| rocketmq_send_cost_time      | topic, invocation_status            | a send, with all its attempts                            |
| rocketmq_delivery_latency    | topic, consumer_group               | a message, from the broker's disk to the handler's call  |
| rocketmq_process_time        | topic, consumer_group, invocation_status | a call of a handler                                 |

| counter                      | labels                              | of                                                       |
|------------------------------|-------------------------------------|----------------------------------------------------------|
| rocketmq_skipped_messages    | topic, consumer_group, reason       | messages that no handler got, by the option that skipped |

Names and labels of the histograms are those of RocketMQ 5's Java client. One object can serve a whole application. Only the
library that is used has to be installed. Histograms are filled by interceptors, and cost what these cost: a producer with
interceptors leaves its fastest path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, Self

from skyrocket.client.consumer.dispatch.load_shedding import Skipped
from skyrocket.client.consumer.handlers import Verdict
from skyrocket.client.consumer.interceptors import ConsumerInterceptor
from skyrocket.client.errors import ConfigurationError
from skyrocket.client.message import Message
from skyrocket.client.producer.interceptors import ProducerInterceptor
from skyrocket.client.receipt import Receipt
from skyrocket.client.received import Received

TOPICS_MAX: Final = 1_000  # each is a series; further ones share one
CONSUMERS_MAX: Final = 1_000  # that are watched
OTHER_TOPIC: Final = "(other)"
SUCCESS: Final = "success"
FAILURE: Final = "failure"


class HistogramSpec(NamedTuple):
    name: str
    note: str
    labels: tuple[str, ...]
    bounds_ms: tuple[float, ...]


SEND_COST_TIME: Final = HistogramSpec(
    "rocketmq_send_cost_time",
    "Milliseconds of a send, with all its attempts.",
    ("topic", "invocation_status"),
    (1, 5, 10, 20, 50, 200, 500),
)
DELIVERY_LATENCY: Final = HistogramSpec(
    "rocketmq_delivery_latency",
    "Milliseconds between the storage of a message and the call of its handler.",
    ("topic", "consumer_group"),
    (1, 5, 10, 20, 50, 200, 500),
)
PROCESS_TIME: Final = HistogramSpec(
    "rocketmq_process_time",
    "Milliseconds of a handler's call.",
    ("topic", "consumer_group", "invocation_status"),
    (1, 5, 10, 100, 1_000, 10_000, 60_000),
)
HISTOGRAMS: Final = (SEND_COST_TIME, DELIVERY_LATENCY, PROCESS_TIME)


class CounterSpec(NamedTuple):
    name: str
    note: str
    labels: tuple[str, ...]


SKIPPED_MESSAGES: Final = CounterSpec(
    "rocketmq_skipped_messages",
    "Messages that a consumer has skipped because it was behind, or because they were too old.",
    ("topic", "consumer_group", "reason"),
)

Observe = Callable[[float, tuple[str, ...]], None]
"""Adds a value with these label values to one histogram."""
Counts = dict[tuple[str, ...], int]
"""The values of a counter, by label values."""
ReadCounts = Callable[[], Counts]


class SkippingConsumer(Protocol):
    """What is watched: a Consumer, of `skyrocket.client` or of `skyrocket.client.sync`."""

    @property
    def skipped(self) -> Mapping[str, Skipped]: ...


class ClientMetrics:
    def __init__(
        self,
        make: Callable[[HistogramSpec], Observe],
        publish: Callable[[CounterSpec, ReadCounts], None],
        wall_ms: Callable[[], float] = lambda: time.time() * 1000,
    ) -> None:
        """Use `prometheus` or `opentelemetry` to create one."""
        self._observe = {spec: make(spec) for spec in HISTOGRAMS}
        self._watched: list[tuple[str, SkippingConsumer]] = []
        publish(SKIPPED_MESSAGES, self._read_skipped)
        self._wall_ms = wall_ms
        self._topics: set[str] = set()

    @classmethod
    def prometheus(cls, registry: Any = None) -> Self:
        """Register the metrics with a registry of prometheus-client; by default, with the global one."""
        try:
            import prometheus_client  # noqa: PLC0415 — only one of the two libraries is needed
            from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415
        except ImportError as missing:
            raise ImportError("These metrics need prometheus-client. Install it with: pip install prometheus-client") from missing

        registry = prometheus_client.REGISTRY if registry is None else registry

        def make(spec: HistogramSpec) -> Observe:
            histogram = prometheus_client.Histogram(spec.name, spec.note, spec.labels, buckets=spec.bounds_ms, registry=registry)
            return lambda value, labels: histogram.labels(*labels).observe(value)

        def publish(spec: CounterSpec, read: ReadCounts) -> None:
            class Collector:
                def collect(self) -> Iterator[Any]:
                    family = CounterMetricFamily(spec.name, spec.note, labels=spec.labels)
                    for labels, value in read().items():
                        family.add_metric(labels, value)
                    yield family

            registry.register(Collector())

        return cls(make, publish)

    @classmethod
    def opentelemetry(cls, meter_provider: Any = None) -> Self:
        """Create the metrics with a meter provider of OpenTelemetry; by default, with the global one."""
        try:
            from opentelemetry import metrics  # noqa: PLC0415 — only one of the two libraries is needed
            from opentelemetry.metrics import Observation  # noqa: PLC0415
        except ImportError as missing:
            raise ImportError("These metrics need OpenTelemetry. Install it with: pip install skyrocketmq[otel]") from missing
        meter = metrics.get_meter("skyrocket.client", meter_provider=meter_provider)

        def make(spec: HistogramSpec) -> Observe:
            histogram = meter.create_histogram(
                spec.name, "milliseconds", spec.note, explicit_bucket_boundaries_advisory=spec.bounds_ms
            )
            return lambda value, labels: histogram.record(value, dict(zip(spec.labels, labels, strict=True)))

        def publish(spec: CounterSpec, read: ReadCounts) -> None:
            def observe(_options: Any) -> Iterator[Any]:
                for labels, value in read().items():
                    yield Observation(value, dict(zip(spec.labels, labels, strict=True)))

            meter.create_observable_counter(spec.name, [observe], "messages", spec.note)

        return cls(make, publish)

    def of_producer(self) -> ProducerInterceptor:
        return _ProducerMetrics(self)

    def of_consumer(self, group: str) -> ConsumerInterceptor:
        return _ConsumerMetrics(self, group)

    def watch(self, consumer: SkippingConsumer, group: str) -> None:
        """Count what a consumer skips. Its counts are read when the metrics are, and stay when it is closed."""
        if len(self._watched) >= CONSUMERS_MAX:
            raise ConfigurationError(
                f"{CONSUMERS_MAX:,} consumers are watched already. Watch those that live as long as the process."
            )
        self._watched.append((group, consumer))

    def _read_skipped(self) -> Counts:
        counts: Counts = {}
        for group, consumer in self._watched:
            for topic, skipped in consumer.skipped.items():
                for reason, count in (("skip_when_behind", skipped.when_behind), ("skip_older_than", skipped.too_old)):
                    labels = (self._bounded(topic), group, reason)
                    if count:
                        counts[labels] = counts.get(labels, 0) + count
        return counts

    # --- called by the interceptors

    def record(self, spec: HistogramSpec, milliseconds: float, topic: str, *labels: str) -> None:
        self._observe[spec](milliseconds, (self._bounded(topic), *labels))

    def now_ms(self) -> float:
        return self._wall_ms()

    def _bounded(self, topic: str) -> str:
        if topic not in self._topics:
            if len(self._topics) >= TOPICS_MAX:
                return OTHER_TOPIC
            self._topics.add(topic)
        return topic


class _ProducerMetrics(ProducerInterceptor):
    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics

    def measure_send(
        self,
        messages: Sequence[Message],
        receipt: Receipt | None,  # noqa: ARG002
        error: BaseException | None,
        seconds: float,
    ) -> None:
        self._metrics.record(SEND_COST_TIME, seconds * 1000, messages[0].topic, FAILURE if error is not None else SUCCESS)


class _ConsumerMetrics(ConsumerInterceptor):
    def __init__(self, metrics: ClientMetrics, group: str) -> None:
        self._metrics = metrics
        self._group = group

    def before_consume(self, messages: Sequence[Received]) -> None:
        now_ms = self._metrics.now_ms()
        for message in messages:
            late_ms = max(0.0, now_ms - message.stored_ms)  # clocks of two machines may differ
            self._metrics.record(DELIVERY_LATENCY, late_ms, message.topic, self._group)

    def measure_consume(self, messages: Sequence[Received], verdict: Verdict, error: Exception | None, seconds: float) -> None:
        status = SUCCESS if error is None and verdict is Verdict.DONE else FAILURE
        self._metrics.record(PROCESS_TIME, seconds * 1000, messages[0].topic, self._group, status)
