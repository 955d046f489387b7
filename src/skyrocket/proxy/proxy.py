"""The proxy process: listens, gives each client a session, and knows the brokers of the cluster."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from skyrocket.clock import monotonic_ms
from skyrocket.net.audit_log import AuditLog
from skyrocket.net.connection import Connection
from skyrocket.net.descriptors import OTHERS, descriptor_limit
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import ConnectError, NetError, RequestTimeoutError
from skyrocket.net.quota import UNLIMITED
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import ClusterInfo
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.proxy.client_session import BrokerId, ClientSession
from skyrocket.proxy.directory import BrokerDirectory, VisibleAddresses, correct
from skyrocket.proxy.frame_router import FrameRouter
from skyrocket.proxy.heartbeats import KeptHeartbeats
from skyrocket.proxy.limits import ProxyLimits
from skyrocket.proxy.server_link import InFlight, OpenConnection
from skyrocket.proxy.settings import ProxySettings
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

_DESCRIPTORS_A_CLIENT: Final = 4  # its own connection, a nameserver, and two brokers


class Proxy:
    """A proxy. `start()` sets `port`, and raises NetError or SettingsError when the proxy cannot start."""

    def __init__(
        self,
        settings: ProxySettings,
        *,
        limits: ProxyLimits | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self.settings = settings
        self.limits = limits or ProxyLimits()
        self.in_flight = InFlight()
        self.heartbeats = KeptHeartbeats()
        self.directory = BrokerDirectory()
        self.visible = VisibleAddresses("", {})  # start() knows the ports
        self.passes_namesrv_admin = settings.namesrv_admin
        self.audit = AuditLog(Path(settings.audit_log_path), _wall_ms) if settings.audit_log_path else None
        self.now_ms = now_ms
        self.port = 0
        self.broker_ports: dict[BrokerId, int] = {}
        self._tls = settings.client_tls()
        net_limits = settings.net_limits()
        connections_max = min(net_limits.connections_max, max(2, (descriptor_limit() - OTHERS) // _DESCRIPTORS_A_CLIENT))
        self._net_limits = replace(net_limits, connections_max=connections_max)
        self._server = Server(
            FrameRouter(self._on_frames, self._is_answering),
            self._net_limits,
            settings.server_tls(),
            tls_only=settings.tls_only,
            now_ms=now_ms,
        )
        self._server.log_slower_than(settings.slow_request_ms)
        self._server.on_closed.append(self._on_closed)
        self._sessions: dict[Connection, ClientSession] = {}
        self._closing: set[asyncio.Task[None]] = set()  # sessions whose client has gone
        self._port_brokers: dict[int, BrokerId] = {}  # by port
        self._asking: Dialer | None = None  # asks nameservers for the brokers; None until the start
        self._answered = ""  # the nameserver that has answered last
        self._looking: asyncio.Task[None] | None = None
        self._looked_ms = -self.limits.look_again_ms
        self._unreachable_brokers: dict[str, str] = {}  # addresses of brokers at which nobody listened since the last look
        self._tasks: list[SupervisedTask] = []
        self._is_unreachable = False  # no nameserver answered at the last look

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{self.settings.visible_host}:{self.port}"

    @property
    def clients(self) -> int:
        return len(self._sessions)

    async def start(self) -> None:
        settings, host = self.settings, self.settings.visible_host
        self._asking = self.dialer(Router())
        try:
            self.port = await self._server.listen(settings.bind_address, settings.listen_port)
            for name, broker_id, wanted in settings.broker_ports:
                port = await self._server.listen(settings.bind_address, wanted)
                self._port_brokers[port] = (name, broker_id)
                self.broker_ports[name, broker_id] = port
        except NetError:
            await self.close()
            raise
        own = {broker: f"{host}:{port}" for broker, port in self.broker_ports.items()}
        self.visible = VisibleAddresses(f"{host}:{self.port}", own)
        self._tasks = [
            SupervisedTask("brokers behind the proxy", self._refresh),
            SupervisedTask("servers that do not answer", self._scan),
        ]
        log.info("The proxy listens on %s:%d for the cluster of %s.", settings.bind_address, self.port, settings.namesrv_addr)

    async def close(self) -> None:
        """Stop. Requests that brokers answer at once still get their responses; those that wait for messages do not."""
        for task in self._tasks:
            await task.close()
        await self._server.close()
        for connection in list(self._sessions):
            self._on_closed(connection)
        if self._closing:
            await asyncio.wait(self._closing)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._asking is not None:
            await self._asking.close()
        if self.audit is not None:
            await self.audit.close()

    # --- clients

    def _on_frames(self, frames: list[Frame], connection: Connection) -> None:
        session = self._sessions.get(connection)
        if session is None:
            self._sessions[connection] = session = ClientSession(connection, self, self._port_brokers.get(connection.local[1]))
        session.on_client_frames(frames)

    def _on_closed(self, connection: Connection) -> None:
        session = self._sessions.pop(connection, None)
        if session is not None:
            task = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _is_answering(self) -> bool:
        return any(session.is_answering for session in self._sessions.values())

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.limits.scan_s)
            for session in list(self._sessions.values()):
                session.check_time(self.now_ms())

    # --- servers

    def dialer(self, router: Router) -> Dialer:
        limits = replace(self._net_limits, quota=UNLIMITED, scan_ms=int(self.limits.scan_s * 1000))
        return Dialer(router, limits, self._tls, self.now_ms)

    async def connect_nameserver(self, connect: Callable[[str], Awaitable[Connection]]) -> OpenConnection:
        reasons: list[str] = []
        for address in self._nameservers():
            try:
                return OpenConnection(address, await connect(address))
            except ConnectError as error:
                reasons.append(str(error))
        raise ConnectError(" ".join(reasons))

    def _nameservers(self) -> list[str]:
        """Return the nameservers: first the one that has answered last, so that no client waits for one that has gone."""
        return sorted(self.settings.nameservers, key=lambda address: address != self._answered)

    def broker_address(self, name: str, port_id: int | None) -> str | None:
        served_id = None if port_id is None else self.visible.served_id((name, port_id), self.directory.ids(name))
        return self.directory.address(name, served_id)

    async def find_broker(self, name: str, port_id: int | None, not_at: str = "") -> str:
        found = self.broker_address(name, port_id)
        if found is None or found == not_at:
            if found is not None:
                self._unreachable_brokers[name] = found
            await self._look_again()
            found = self.broker_address(name, port_id)
        if found is None or found == not_at:
            elsewhere = f" at another address than {not_at}" if found else ""
            number = "" if port_id is None else f" with id {port_id}"
            raise ConnectError(f"No nameserver knows broker {name}{number}{elsewhere}.")
        return found

    async def broker_names(self) -> list[str]:
        if not self.directory.names:
            await self._look_again()
        return self.directory.names

    async def _refresh(self) -> None:
        """Look for brokers now and then: one that was added, or a master that has changed."""
        while True:
            await self._look()
            await asyncio.sleep(self.limits.refresh_s)

    async def _look_again(self) -> None:
        """Look for a broker that is not known, but not for each request that names it."""
        if self._looking is not None or self.now_ms() - self._looked_ms >= self.limits.look_again_ms:
            await self._look()

    async def settle_doubt(self) -> None:
        await asyncio.wait([self._begin_look()], timeout=self.limits.doubt_ms / 1000)

    async def _look(self) -> None:
        """Ask for the brokers. Whoever calls this meanwhile waits for the same answer."""
        await asyncio.shield(self._begin_look())

    def _begin_look(self) -> asyncio.Task[None]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._ask_nameservers())
            self._looking.add_done_callback(self._on_looked)
        return self._looking

    def _on_looked(self, looked: asyncio.Task[None]) -> None:
        self._looked_ms = self.now_ms()
        if self._looking is looked:
            self._looking = None

    async def _ask_nameservers(self) -> None:
        reasons: list[str] = []
        for address in self._nameservers():
            try:
                cluster = await self._ask_for_brokers(address)
            except (NetError, ProtocolError) as error:
                reasons.append(str(error))
                continue
            await self._ask_others(cluster, address)
            new = self.directory.changes(cluster)
            listens = await asyncio.gather(*map(self._is_listening, new.values()))
            self.directory.replace(cluster, keep=[name for name, is_so in zip(new, listens, strict=True) if not is_so])
            if self._is_unreachable:
                log.info("Nameserver %s answers again.", address)
            self._answered, self._is_unreachable = address, False
            return
        if not self._is_unreachable:
            log.warning("The proxy cannot ask for the brokers of the cluster: %s", " ".join(reasons))
        self._is_unreachable = True

    async def _ask_others(self, cluster: ClusterInfo, asked: str) -> None:
        """Ask the other nameservers for brokers that cannot be reached where this one says that they are."""
        unreachable, self._unreachable_brokers = self._unreachable_brokers, {}
        for address in self._nameservers() if unreachable else ():
            if address != asked:
                try:
                    correct(cluster, await self._ask_for_brokers(address), unreachable)
                except (NetError, ProtocolError) as error:
                    log.debug("Nameserver %s does not say where the brokers are: %s", address, error)

    async def _is_listening(self, address: str) -> bool:
        """Whether a broker's new address can be reached. If not, its links stay where they are."""
        assert self._asking is not None, "the proxy has not started"
        try:
            connection = await self._asking.open(address)
        except ConnectError:
            return False
        connection.close("the proxy has seen that the broker listens")
        return True

    async def _ask_for_brokers(self, address: str) -> ClusterInfo:
        assert self._asking is not None, "the proxy has not started"
        connection = await self._asking.connection(address)
        try:
            response = await connection.request(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
        except RequestTimeoutError:
            connection.close("it does not answer")  # a connection to a machine that has gone would never end by itself
            raise
        if response.code != ResponseCode.SUCCESS:
            raise ConnectError(f"{address} answers with code {response.code}: {response.remark}.")
        return decode(response.body, ClusterInfo)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
