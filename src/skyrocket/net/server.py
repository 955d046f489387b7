"""A server: listens, limits its connections, enforces time-outs, and drains before it closes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from typing import Protocol

from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.net.lateness import Lateness
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class FlowControlPolicy(Protocol):
    """Decides which requests the server refuses because they waited too long."""

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        """Return True when every request of a read event may be served without a closer look."""

    def refusal(self, code: int, waited_ms: int, now_ms: int) -> str | None:
        """Return why a request is refused, or None when it may be served."""

    def record_served(self, code: int, took_ms: int, now_ms: int) -> None:
        """Take note that the requests of a read event were served. `code` is that of the first request."""


class Server:
    """Serves any number of ports with one set of connections and one router."""

    def __init__(
        self,
        router: Router,
        limits: NetLimits | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        tls_only: bool = False,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self.router = router
        self.limits = limits or NetLimits()
        self.tls = tls
        self.tls_only = tls_only
        self.reads_always = False
        self.now_ms = now_ms
        self.on_closed: list[Callable[[Connection], None]] = []
        self.flow_control: FlowControlPolicy | None = None
        self.connections: set[Connection] = set()
        self._listening: list[asyncio.Server] = []
        self._scan_task: asyncio.Task[None] | None = None
        self._overload: str | None = None  # why requests are refused at present
        self._held_bytes = 0  # upper bound over all connections: grows with each unwritten response, recounted at each scan
        self._draining = False
        self._lateness = Lateness()

    async def listen(self, host: str, port: int) -> int:
        """Start accepting connections. Return the port: for port 0 the system chooses one."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        except OSError as error:
            raise NetError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
        self._listening.append(server)
        if self._scan_task is None:
            self._scan_task = loop.create_task(self._scan())
        chosen: int = server.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        """Stop accepting connections and requests, wait until responses are written, then close all connections."""
        self._draining = True
        for server in self._listening:
            server.close()
        if self._scan_task is not None:
            self._scan_task.cancel()
            await asyncio.gather(self._scan_task, return_exceptions=True)
        self._lateness.close()
        try:
            async with asyncio.timeout(self.limits.drain_ms / 1000):
                await self.router.drain()
                while any(connection.unwritten_bytes for connection in self.connections):  # noqa: ASYNC110 — the kernel sends no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.warning("Responses to %d connections were not written in time.", len(self.connections))
        for connection in list(self.connections):
            connection.close("the server is closing")
        for server in self._listening:
            await server.wait_closed()
        self._listening.clear()

    # --- called by connections

    def accept(self, connection: Connection) -> bool:
        if self._draining or len(self.connections) >= self.limits.connections_max:
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: Connection, reason: str) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            log.debug("The connection from %s ended: %s.", connection.peer_text, reason)
            for callback in self.on_closed:
                callback(connection)

    def handle_fast(self, connection: Connection, frames: list[Frame]) -> int:
        if self._overload is not None or self._draining or not self._is_calm(connection):
            return 0
        path = self.router.fast_path(frames[0])
        if path is None:
            return 0
        served = path.handler(frames, connection)
        if served:
            self._report_served(path.code, connection.last_read_ms)
        return served

    def requests(self, connection: Connection, commands: list[Command]) -> list[Command]:
        if self._overload is not None:
            self.router.refuse_all(connection, commands, ResponseCode.SYSTEM_BUSY, self._overload)
        elif self._draining:
            self.router.refuse_all(connection, commands, ResponseCode.SYSTEM_BUSY, "The server is closing.")
        else:
            first, began_ms = commands[0].code, self.now_ms()
            in_time = commands if self._is_calm(connection) else self._refuse_late(connection, commands)
            left = self.router.handle(connection, in_time)
            self._report_served(first, began_ms)
            return left
        return []

    def _is_calm(self, connection: Connection) -> bool:
        heard_ms = connection.last_read_ms
        return self.flow_control is None or self.flow_control.is_calm(self._lateness.late_ms(heard_ms), heard_ms)

    def _report_served(self, code: int, began_ms: int) -> None:
        if self.flow_control is not None:
            now_ms = self.now_ms()
            self.flow_control.record_served(code, now_ms - began_ms, now_ms)

    def _refuse_late(self, connection: Connection, commands: list[Command]) -> list[Command]:
        """Refuse the requests that waited too long, and return the others."""
        assert self.flow_control is not None
        served: list[Command] = []
        waited_ms = self._lateness.late_ms(connection.last_read_ms)
        for command in commands:
            why = self.flow_control.refusal(command.code, waited_ms, connection.last_read_ms)
            if why is None:
                served.append(command)
            else:
                self.router.refuse_all(connection, [command], ResponseCode.SYSTEM_BUSY, why)
        return served

    def may_hold(self, size_bytes: int) -> bool:
        self._held_bytes += size_bytes
        if self._held_bytes > self.limits.held_max_bytes:
            self._held_bytes = self._count_held()
        return self._held_bytes <= self.limits.held_max_bytes

    def _count_held(self) -> int:
        return sum(connection.held_bytes for connection in self.connections)

    def _check_held(self) -> None:
        """Refuse requests while connections hold much data. Close the connections that hold the most when it is too much."""
        held = self._count_held()
        most = self.limits.in_flight_max_bytes
        self._overload = f"Connections hold {held} bytes of unread responses; {most} are allowed." if held > most else None
        if held > self.limits.held_max_bytes:
            for connection in sorted(self.connections, key=lambda each: each.held_bytes, reverse=True):
                held -= connection.held_bytes
                connection.abort("it holds too many bytes")
                if held <= self.limits.held_max_bytes:
                    break
        self._held_bytes = held

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.limits.scan_ms / 1000)
            now_ms = self.now_ms()
            for connection in list(self.connections):
                connection.check_time(now_ms)
            self._check_held()
