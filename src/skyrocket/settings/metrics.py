"""The settings of metrics, with Apache's keys. Apache's nameserver has no metrics; ours has, with the same keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from skyrocket.auth.source_addresses import Network, parse_network
from skyrocket.settings.kinds import PORT, TEXT, ValueKind, whole
from skyrocket.settings.server import ServerSettings
from skyrocket.settings.table import setting

_LABEL: Final = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]{0,63}):([^,]{1,256})", re.ASCII)


class MetricsExporter(Enum):
    """Apache's four exporters and their numbers. LOG does not exist here."""

    DISABLE = 0
    OTLP_GRPC = 1
    PROM = 2
    LOG = 3


def _parse_exporter(text: str) -> MetricsExporter:
    return MetricsExporter(int(text)) if text.isdigit() else MetricsExporter[text.upper()]


def _parse_labels(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `name:value,name:value`."""
    found = [_LABEL.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    if None in found:
        raise ValueError(text)
    return tuple((match[1], match[2]) for match in found if match is not None)


EXPORTER: Final = ValueKind("DISABLE, PROM, OTLP_GRPC or LOG", _parse_exporter, lambda exporter: str(exporter.name))
LABELS: Final = ValueKind(
    "labels, name:value,name:value", _parse_labels, lambda labels: ",".join(f"{name}:{value}" for name, value in labels)
)


def _parse_networks(text: str) -> tuple[Network, ...]:
    found = [parse_network(part.strip()) for part in text.split(",") if part.strip()]
    if None in found:
        raise ValueError(text)
    return tuple(network for network in found if network is not None)


NETWORKS: Final = ValueKind(
    "addresses and networks, 10.0.0.7,10.1.0.0/16", _parse_networks, lambda networks: ",".join(map(str, networks))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredSettings(ServerSettings):
    # fmt: off
    # One setting a row, of one or two lines.
    metrics_exporter: MetricsExporter = setting(MetricsExporter.DISABLE, "metricsExporterType", EXPORTER,  # noqa: RUF009 — an enum
        "PROM: /metrics for Prometheus, /healthz and /readyz over HTTP. OTLP_GRPC: sent to a collector. DISABLE: none of them.")
    metrics_host: str = setting("", "metricsPromExporterHost", TEXT,
        "The address of these pages; empty: 127.0.0.1. Apache's default is brokerIP1. Whoever reaches it may read them.")
    metrics_port: int = setting(5557, "metricsPromExporterPort", PORT, "Their port; 0 lets the system choose.")
    metrics_readers: tuple[Network, ...] = setting((), "metricsAllowedAddresses", NETWORKS,
        "The addresses and networks that may read these pages, separated by commas; empty: everyone who reaches them.")
    metrics_labels: tuple[tuple[str, str], ...] = setting((), "metricsLabel", LABELS,
        "Labels for every series, as name:value,name:value.")
    metrics_series_max: int = setting(2_000, "metricsOtelCardinalityLimit", whole(1, 1_000_000),
        "Label sets of one metric; the rest of them is one series. Apache's default is 50000.")
    otlp_target: str = setting("", "metricsGrpcExporterTarget", TEXT,
        "The collector of OTLP_GRPC: host:port, http://host:port, or https://host:port for TLS.")
    otlp_headers: tuple[tuple[str, str], ...] = setting((), "metricsGrpcExporterHeader", LABELS,
        "Headers of each export, as name:value,name:value.", secret=True)
    otlp_timeout_ms: int = setting(3_000, "metricGrpcExporterTimeOutInMills", whole(1, 600_000),
        "Milliseconds that an export may take.")
    otlp_interval_ms: int = setting(60_000, "metricGrpcExporterIntervalInMills", whole(10, 3_600_000),
        "Milliseconds between two exports.")
    # fmt: on

    @property
    def exports_metrics(self) -> bool:
        return self.metrics_exporter in (MetricsExporter.PROM, MetricsExporter.OTLP_GRPC)

    @property
    def otlp_values(self) -> tuple[str, tuple[tuple[str, str], ...], int, int] | None:
        """Return where and when metrics are sent; None when they are not."""
        if self.metrics_exporter is not MetricsExporter.OTLP_GRPC:
            return None
        return self.otlp_target, self.otlp_headers, self.otlp_timeout_ms, self.otlp_interval_ms

    @property
    def metrics_address(self) -> tuple[str, int]:
        return self.metrics_host or "127.0.0.1", self.metrics_port

    def metrics_warning(self) -> str | None:
        """Return a sentence about an exporter of Apache's that does not exist here; None when there is nothing to say."""
        if self.metrics_exporter is not MetricsExporter.LOG:
            return None
        return "metricsExporterType=LOG does not exist here, and exports nothing. Use PROM or OTLP_GRPC."

    def check(self) -> None:
        ServerSettings.check(self)
        if self.metrics_exporter is MetricsExporter.OTLP_GRPC and not self.otlp_target:
            raise ValueError("metricsExporterType=OTLP_GRPC needs metricsGrpcExporterTarget, the address of the collector.")

    def server_labels(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of every series: those of the server, and those of `metricsLabel`, which do not replace them."""
        return {**dict(self.metrics_labels), **own}
