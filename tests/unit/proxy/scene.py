"""A proxy on loopback in front of a nameserver and brokers that a test scripts, and clients that write their own frames."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from skyrocket.clock import monotonic_ms
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import BrokerData, ClusterInfo, HeartbeatData, QueueData, TopicRouteData
from skyrocket.protocol.command import Command, decode_command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import RequestCode
from skyrocket.proxy.frame_router import FrameRouter
from skyrocket.proxy.limits import ProxyLimits
from skyrocket.proxy.proxy import Proxy
from skyrocket.proxy.settings import ProxySettings
from tests.support.waiting import WAIT_S_MAX

Script = Callable[[Command, Connection], Command | None]
QUERY, SEND, PULL = RequestCode.GET_MAX_OFFSET, RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
QUICK = ProxyLimits(every_broker_ms=200, scan_s=0.02, refresh_s=3600, look_again_ms=0)


async def until(is_so: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():  # noqa: ASYNC110 — other tasks change it
            await asyncio.sleep(0.005)


class ScriptedServer:
    """Answers every request with success and its own name, unless the script answers; None: no answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.script: dict[int, Script] = {}
        self.asked: list[Command] = []
        self.connections: list[Connection] = []  # in the order of their first request
        self.answers: list[Command] = []  # of clients, to requests of this server
        self.port = 0
        self._server: Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def codes(self) -> list[int]:
        return [command.code for command in self.asked]

    async def start(self, port: int = 0) -> None:
        self._server = Server(FrameRouter(self._handle))
        self.port = await self._server.listen("127.0.0.1", port)

    async def stop(self) -> None:
        assert self._server is not None
        await self._server.close()

    def _handle(self, frames: list[Frame], connection: Connection) -> None:
        if connection not in self.connections:
            self.connections.append(connection)
        for command in map(decode_command, frames):
            if command.is_response:
                self.answers.append(command)
                connection.resolve(command.opaque, command)
                continue
            self.asked.append(command)
            script = self.script.get(command.code)
            answer = self._serve(command) if script is None else script(command, connection)
            if answer is not None and not command.is_oneway:
                connection.send_command(answer)

    def _serve(self, command: Command) -> Command:
        answer = command.response(0, body=command.body)
        answer.fields = {"by": self.name, **{key: command.fields[key] for key in ("queueId",) if key in command.fields}}
        return answer


class Scene:
    def __init__(self, settings: ProxySettings, limits: ProxyLimits, brokers: tuple[str, ...]) -> None:
        self.clock_looks = 0
        self._ahead_ms = 0
        self.names = ScriptedServer("names")
        self.brokers = {name: ScriptedServer(name) for name in brokers}
        self.table: dict[str, dict[int, str]] = {}  # what the nameserver knows
        self.names.script = {
            int(RequestCode.GET_BROKER_CLUSTER_INFO): lambda command, _: command.response(0, body=encode(self.cluster())),
            int(RequestCode.GET_ROUTEINFO_BY_TOPIC): lambda command, _: command.response(0, body=encode(self.route())),
        }
        self._settings = settings
        self._limits = limits
        self.proxy: Proxy
        self._dialers: list[Dialer] = []

    def cluster(self) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=self._data(), cluster_addr_table={"c": list(self.table)})

    def route(self) -> TopicRouteData:
        rows = [QueueData(broker_name=name, read_queue_nums=1, write_queue_nums=1, perm=6) for name in self.table]
        return TopicRouteData(queue_datas=rows, broker_datas=list(self._data().values()))

    def _data(self) -> dict[str, BrokerData]:
        return {name: BrokerData(cluster="c", broker_name=name, broker_addrs=dict(at)) for name, at in self.table.items()}

    async def start(self) -> None:
        await self.names.start()
        for name, broker in self.brokers.items():
            await broker.start()
            self.table[name] = {0: broker.address}
        settings = replace(self._settings, namesrv_addr=self.names.address)
        self.proxy = Proxy(settings, limits=self._limits, now_ms=self._now_ms)
        await self.proxy.start()
        await until(lambda: len(self.proxy.directory.names) == len(self.brokers), "the proxy knows the brokers")

    def _now_ms(self) -> int:
        self.clock_looks += 1
        return monotonic_ms() + self._ahead_ms

    def pass_time(self, time_ms: int) -> None:
        """Let the proxy's clock go on at once."""
        self._ahead_ms += time_ms

    async def close(self) -> None:
        for dialer in self._dialers:
            await dialer.close()
        await self.proxy.close()
        for server in (self.names, *self.brokers.values()):
            await server.stop()

    async def client(self, port: int = 0, router: Router | None = None) -> Connection:
        """A new client's connection to the proxy."""
        dialer = Dialer(router, NetLimits(request_ms=int(1000 * WAIT_S_MAX)))
        self._dialers.append(dialer)
        return await dialer.connection(f"127.0.0.1:{port or self.proxy.port}")

    async def learn(self, client: Connection) -> TopicRouteData:
        """Let a client ask for a route."""
        answer = await client.request(Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields={"topic": "t"}))
        return decode(answer.body, TopicRouteData)


def heartbeat(client_id: str = "one", **given: Any) -> Command:
    return Command(RequestCode.HEART_BEAT, body=encode(HeartbeatData(client_id=client_id, **given)))


def to(name: str, code: int = QUERY, **fields: str) -> Command:
    """A request that names a broker."""
    return Command(code, fields={"n" if code == SEND else "bname": name, **fields})


@asynccontextmanager
async def playing(*brokers: str, limits: ProxyLimits = QUICK, **settings: Any) -> AsyncIterator[Scene]:
    scene = Scene(ProxySettings(listen_port=0, **settings), limits, brokers or ("broker-a", "broker-b"))
    await scene.start()
    try:
        yield scene
    finally:
        await scene.close()
