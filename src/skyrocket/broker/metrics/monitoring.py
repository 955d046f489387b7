"""Puts together what a broker exports: its collectors, the times of its stages, and the reasons why it may not be ready.

BrokerMonitoring()       before anything starts: `/readyz` says that the broker starts
.install(…)              everything runs: `/metrics` has a page
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.metrics.connections import ConnectionMetrics
from skyrocket.broker.metrics.lag import LagMetrics
from skyrocket.broker.metrics.replicas import ReplicaMetrics
from skyrocket.broker.metrics.rpc_latency import TIMES_MAX, RpcLatency
from skyrocket.broker.metrics.stages import StageTimes
from skyrocket.broker.metrics.storage import StorageMetrics
from skyrocket.broker.metrics.traffic import TrafficMetrics
from skyrocket.broker.metrics.waiting import WaitingMetrics
from skyrocket.broker.settings import BrokerSettings
from skyrocket.metrics.health import Health
from skyrocket.metrics.monitoring import Monitoring
from skyrocket.metrics.page import MetricsPage
from skyrocket.metrics.process import ProcessFigures
from skyrocket.net.server import Server
from skyrocket.store.message_store import MessageStore

SCOPE: Final = "broker-meter"  # the label otel_scope_name of Apache's series


class BrokerMonitoring(Monitoring):
    def __init__(self, settings: BrokerSettings, store: MessageStore, stages: StageTimes) -> None:
        super().__init__(Health("the broker"))
        self._stages = stages
        self._store = store
        self._place = settings.metrics_address, settings.otlp_values, settings.metrics_readers

    def listen(self) -> None:
        self.begin(*self._place)

    def install(
        self, context: BrokerContext, server: Server, waiting_pulls: Callable[[], int], node_figures: Callable[[], dict[str, str]]
    ) -> None:
        """Collect the figures of the broker's parts from now on, and how long requests take."""
        context.router.responses = rpc = RpcLatency(self._store.horizon, server.now_ms)
        context.answers.on_unconfirmed = rpc.record_unconfirmed

        def on_released(waited_ms: int) -> None:
            self._stages.record_parked(waited_ms)
            rpc.record_released()

        def on_round() -> None:
            if len(rpc.turns) > TIMES_MAX:
                rpc.take_turns()
            server.served_turns = rpc.notes()

        context.answers.on_released = on_released
        self._stages.on_round = on_round
        server.served_turns = rpc.notes()
        self.health.reasons.append(lambda: self._store.refusal)
        process, lag, storage = ProcessFigures(), LagMetrics(context), StorageMetrics(context)
        connections = ConnectionMetrics(context, lambda: len(server.connections), waiting_pulls)
        settings = context.settings()
        self.page = MetricsPage(
            settings.server_labels(
                {
                    "cluster": settings.cluster_name,
                    "node_type": "broker",
                    "node_id": settings.broker_name,
                    "otel_scope_name": SCOPE,
                }
            ),
            lambda: context.settings().metrics_series_max,
            [
                process.collect,
                TrafficMetrics(context).collect,
                connections.collect,
                lag.collect,
                storage.collect,
                WaitingMetrics(context).collect,
                ReplicaMetrics(context, node_figures).collect,
                self._stages.collect,
                rpc.collect,
            ],
            [process.prepare, connections.prepare, lag.prepare, storage.prepare],
        )
