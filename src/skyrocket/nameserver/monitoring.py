"""What `/metrics` says about a nameserver. Apache's nameserver exports no metrics, so the names are ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from skyrocket.metrics.family import Measured, gauge, single
from skyrocket.metrics.health import Health
from skyrocket.metrics.monitoring import Monitoring
from skyrocket.metrics.page import MetricsPage
from skyrocket.metrics.process import ProcessFigures
from skyrocket.metrics.turn_times import TurnTimes
from skyrocket.nameserver.route_table import RouteTable
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.server import Server

BROKERS: Final = gauge("skyrocket_nameserver_brokers", "Registered brokers, masters and slaves.", "broker_cluster")
TOPICS: Final = gauge("skyrocket_nameserver_topics", "Topics that have a route.")
OPEN: Final = gauge("skyrocket_connections", "Open connections of clients.")


class NameserverMonitoring(Monitoring):
    def __init__(self, settings: Callable[[], NameserverSettings], table: RouteTable, server: Server) -> None:
        super().__init__(Health("the nameserver"))
        self._settings = settings
        self._table = table
        self._server = server
        self._process = ProcessFigures()

    def listen(self) -> None:
        settings = self._settings()
        self.begin(settings.metrics_address, settings.otlp_values, settings.metrics_readers)

    def install(self, address: str) -> None:
        """Collect figures from now on. `address` is the nameserver's own: the label node_id."""
        times = TurnTimes()
        self._server.observe_turns(times)
        self.page = MetricsPage(
            self._settings().server_labels({"node_type": "nameserver", "node_id": address}),
            lambda: self._settings().metrics_series_max,
            [self._process.collect, self._collect, times.collect],
            [self._process.prepare],
        )

    def _collect(self) -> Iterable[Measured]:
        clusters = Counter(key.cluster for key in self._table.registered())
        yield Measured(BROKERS, [((cluster,), count) for cluster, count in clusters.items()])
        yield single(TOPICS, len(self._table.topics))
        yield single(OPEN, len(self._server.connections))
