"""The nameserver process: serves requests and removes brokers that have gone silent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from skyrocket.clock import monotonic_ms
from skyrocket.metrics.health import Phase
from skyrocket.nameserver.access import NameserverAudit, NameserverGuard
from skyrocket.nameserver.broker_requests import BrokerRequests
from skyrocket.nameserver.config_requests import ConfigRequests
from skyrocket.nameserver.errors import NameserverError
from skyrocket.nameserver.kv_requests import KvRequests, KvStore
from skyrocket.nameserver.monitoring import NameserverMonitoring
from skyrocket.nameserver.route_requests import RouteRequests
from skyrocket.nameserver.route_table import BrokerKey, RouteTable
from skyrocket.nameserver.settings import NameserverSettings
from skyrocket.net.audit_log import AuditLog
from skyrocket.net.connection import Connection
from skyrocket.net.descriptors import descriptor_limit, plan_descriptors
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.responses import ResponseCode
from skyrocket.settings.live import FollowedSettings, LiveSettings
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)
outside = OutsideLog(log)


class Nameserver:
    """A nameserver. `start()` sets `port`, and raises NameserverError or NetError when the nameserver cannot start."""

    def __init__(
        self,
        settings: NameserverSettings | None = None,
        *,
        now_ms: Callable[[], int] = monotonic_ms,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        descriptors: int | None = None,
    ) -> None:
        """`descriptors` is how many connections the nameserver may have open: by default, as many as the process."""
        self.settings = LiveSettings(settings or NameserverSettings())
        self.table = RouteTable()
        self.kv = KvStore(self.settings().kv_config_path)
        self.router = Router({NameserverError: ResponseCode.SYSTEM_ERROR})
        self._now_ms = now_ms
        now = self.settings()
        limits = now.net_limits()
        self._descriptors = plan_descriptors(descriptors or descriptor_limit(), limits.connections_max)
        limits = replace(limits, connections_max=self._descriptors.connections_max)
        self._server = Server(self.router, limits, now.server_tls(), tls_only=now.tls_only, now_ms=now_ms)
        self._server.on_closed.append(self._on_connection_closed)
        self._scanning: SupervisedTask | None = None
        self.port = 0  # set by start()
        self.monitoring = NameserverMonitoring(self.settings, self.table, self._server) if now.exports_metrics else None
        for requests in (
            BrokerRequests(self.table, self.kv, self.settings, now_ms),
            RouteRequests(self.table, self.kv, self.settings, now_ms),
            KvRequests(self.kv),
            ConfigRequests(self.settings),
        ):
            requests.register(self.router)
        self._audit: AuditLog | None = None
        if now.is_audited:
            self._audit = AuditLog(now.audit_log_file, wall_ms)
            self.router.audit = audit = NameserverAudit(self._audit, knows_users=now.authentication_enabled)
            if now.authentication_enabled:
                self.router.set_guard(NameserverGuard(now, audit))

    @property
    def address(self) -> str:
        host = self.settings().bind_address
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def start(self) -> None:
        if self._descriptors.warning is not None:
            log.warning(self._descriptors.warning)
        if (warning := self.settings().metrics_warning()) is not None:
            log.warning("%s", warning)
        self.kv.load()
        self.port = await self._server.listen(self.settings().bind_address, self.settings().listen_port)
        if self.monitoring is not None:
            self.monitoring.install(self.address)
            self.monitoring.listen()
            self.monitoring.health.phase = Phase.SERVING
        self._scanning = SupervisedTask("removal of silent brokers", self._scan)
        log.info("The nameserver listens on %s.", self.address)

    async def close(self) -> None:
        """Stop. Responses that are being written still leave. Clients keep the routes that they have."""
        if self.monitoring is not None:
            self.monitoring.health.phase = Phase.STOPPING
        if self._scanning is not None:
            await self._scanning.close()
        self._server.on_closed.clear()
        await self._server.close()
        if self._audit is not None:
            await self._audit.close()
        if self.monitoring is not None:
            await self.monitoring.close()

    def _on_connection_closed(self, connection: Connection) -> None:
        for key in self.table.remove_connection(connection):
            outside.warning("Removed %s: its connection closed.", _format_key(key))

    async def _scan(self) -> None:
        followed = FollowedSettings(self._server, self.settings())
        while True:
            await asyncio.sleep(self.settings().scan_interval_ms / 1000)
            followed.follow(self.settings())
            for key, connection in self.table.remove_silent(self._now_ms()):
                outside.warning("Removed %s: it was silent for too long.", _format_key(key))
                if isinstance(connection, Connection):
                    connection.close("the broker was silent for too long")


def _format_key(key: BrokerKey) -> str:
    return f"broker {key.address} of cluster {key.cluster}"
