"""A server: listens, limits its connections, enforces time-outs, and drains before it closes."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from skyrocket.clock import monotonic_ms
from skyrocket.net.addresses import AddressTable
from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError
from skyrocket.net.held_bytes import HeldBytes
from skyrocket.net.lateness import Lateness, process_cpu_ms
from skyrocket.net.limits import NetLimits
from skyrocket.net.loop_turn import LoopTurn, TurnObserver, call_soon
from skyrocket.net.outside_log import OutsideLog
from skyrocket.net.quota import DEBT_SERVED_MS_MAX, QuotaRates
from skyrocket.net.router import Arrival, Router, TurnHandler
from skyrocket.net.tls import renew
from skyrocket.net.vip import CHECK_MS, NEVER_MS, VipConnections
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.responses import ResponseCode
from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)
outside = OutsideLog(log)

REFUSED_WARNING_MS = 60_000  # between two warnings about refused connections


SERVED_MS_BITS: Final = 40
ServedTurns = dict[int, int]
"""How many requests fast paths have served, by code << SERVED_MS_BITS | the milliseconds that the turn took."""


class FlowControlPolicy(Protocol):
    """Decides which requests the server refuses because they waited too long."""

    def record_round(self, late_ms: int, worked_ms: int, now_ms: int) -> None:
        """Take note that a round of the event loop is over: how late it was, and how much of that was work of this process."""

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        """Return True when every request of a read event may be served without a closer look."""

    def refusal(self, code: int, waited_ms: int, worked_ms: int, now_ms: int) -> str | None:
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
        cpu_ms: Callable[[], int] = process_cpu_ms,
        call_soon: Callable[[Callable[[], None]], None] = call_soon,
    ) -> None:
        """`call_soon` calls the end of a turn when every socket that is readable has been read."""
        self.router = router
        self._turn = LoopTurn(self._handle_turn, call_soon)
        self.handle_arrived = self._turn.add
        self.end_turn = self._turn.end_for
        self.flush_soon = self._turn.flush_soon
        self.limits = limits or NetLimits()
        self.tls = tls
        self.tls_only = tls_only
        self.reads_always = False
        self.vip_due_ms = NEVER_MS
        self._vip = VipConnections()
        self.now_ms = now_ms
        self.on_closed: list[Callable[[Connection], None]] = []
        self.flow_control: FlowControlPolicy | None = None
        self.connections: set[Connection] = set()
        self._listening: list[asyncio.Server] = []
        self._scan_task: SupervisedTask | None = None
        self.addresses = AddressTable(self.limits.connections_per_address_max)
        self._held = HeldBytes(self.limits, self.addresses)
        self.quota: QuotaRates | None = None
        self.set_quota(self.limits.quota)
        self.served_turns: ServedTurns | None = None  # for whoever takes them out, in each round; None: nobody
        self._slow_ms = sys.maxsize
        self._refused_connections = 0  # since the last warning about them
        self._warned_ms = -REFUSED_WARNING_MS
        self._draining = False
        self._lateness = Lateness(now_ms, self._record_round, cpu_ms)

    def set_quota(self, rates: QuotaRates) -> None:
        """Set what one client may use from now on."""
        self.quota = rates if rates.are_limited else None

    def log_slower_than(self, slow_ms: int) -> None:
        """Log requests that take longer to handle from now on; 0 logs none."""
        self._slow_ms = slow_ms or sys.maxsize
        self.router.log_waits(self._slow_ms, self.now_ms)

    def observe_turns(self, observer: TurnObserver) -> None:
        """Tell an observer how long turns take from now on."""
        self._turn.observe(observer)

    async def listen(self, host: str, port: int, *, is_vip: bool = False) -> int:
        """Start accepting connections. Return the port: for port 0 the system chooses one. See `net/vip.py` for `is_vip`."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: Connection(self, is_vip=is_vip), host, port, backlog=1024)
        except OSError as error:
            raise NetError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
        self._listening.append(server)
        if self._scan_task is None:
            self._scan_task = SupervisedTask("time-outs of connections", self._scan)
        chosen: int = server.sockets[0].getsockname()[1]
        return chosen

    def stop_requests(self) -> None:
        """Accept no more connections and refuse requests from now on. Those under way are still answered, until `close`."""
        self._draining = True
        for server in self._listening:
            server.close()

    async def close(self) -> None:
        """Stop accepting connections and requests, wait until responses are written, then close all connections."""
        self.stop_requests()
        if self._scan_task is not None:
            await self._scan_task.close()
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
        if self._draining:
            return False
        address = None
        if len(self.connections) < self.limits.connections_max:
            address = self.addresses.open(connection)
        if address is None:
            self._warn_refused(connection)
            return False
        connection.address = address
        self.connections.add(connection)
        if connection.is_vip:
            self._vip.add(connection)
            self.vip_due_ms = self.now_ms()
        return True

    def _warn_refused(self, connection: Connection) -> None:
        """Warn about refused connections, but not about each of them."""
        self._refused_connections += 1
        now_ms = self.now_ms()
        if now_ms - self._warned_ms >= REFUSED_WARNING_MS:
            log.warning(
                "Closed %d new connections, the last one from %s. %d are open; %d are allowed, and %d from one address.",
                self._refused_connections,
                connection.peer[0],
                len(self.connections),
                self.limits.connections_max,
                self.limits.connections_per_address_max,
            )
            self._refused_connections, self._warned_ms = 0, now_ms

    def forget(self, connection: Connection, reason: str) -> None:
        if connection in self.connections:
            self.connections.discard(connection)
            if connection.is_vip:
                self._vip.remove(connection)
                self.vip_due_ms = self.vip_due_ms if self._vip else NEVER_MS
            if connection.address is not None:
                connection.address.connections.discard(connection)
            log.debug("The connection from %s ended: %s.", connection.peer_text, reason)
            for callback in self.on_closed:
                callback(connection)

    def serve_vip(self) -> None:
        self.vip_due_ms = NEVER_MS  # while they are served
        self._vip.serve()
        if self._vip:
            self.vip_due_ms = self.now_ms() + CHECK_MS

    def hold(self, connection: Connection, size_bytes: int) -> None:
        self._held.add(connection, size_bytes)

    def handle_vip(self, connection: Connection, size_bytes: int) -> None:  # noqa: ARG002
        self._handle_turn([connection])
        connection.flush()
        connection.finish_arrived()

    def _handle_turn(self, connections: Sequence[Connection]) -> None:
        """Handle the frames that arrived on these connections: first those for fast paths, all together, then the others."""
        is_fast = not self._draining and self._is_calm(connections[0], self.now_ms())
        checks = self.quota is not None or self._held.share_bytes is not None
        fast_path = self.router.fast_path
        together: dict[TurnHandler, tuple[int, list[Arrival]]] = {}
        rest: list[Arrival] = []
        for connection in connections:
            frames = connection.take_arrived()
            path = None
            if is_fast and frames and not connection.deferred and not (checks and self._refusal(connection)):
                path = fast_path(frames[0])
            if path is None:
                rest.append((frames, connection))
                continue
            _, handler, code = path
            found = together.get(handler)
            if found is None:
                together[handler] = (code, [(frames, connection)])
            else:
                found[1].append((frames, connection))
        for handler, (code, arrivals) in together.items():
            rest += self._handle_together(handler, code, arrivals)
        for frames, connection in rest:
            if frames:
                self._handle_rest(frames, connection)

    def _handle_together(self, handler: TurnHandler, code: int, arrivals: list[Arrival]) -> list[Arrival]:
        """Let a fast path handle the first frames of each connection. Return the frames that are left."""
        began_ms = self.now_ms()
        handled: list[int] = []
        error = failure_of(handler, arrivals, handled)
        if error is not None:
            log.error("Requests of %d connections failed unexpectedly.", len(arrivals), exc_info=error)
            for _, connection in arrivals:
                connection.abort("a request of it failed unexpectedly")
            return []
        now_ms = self._report_served(code, began_ms)
        served = self.served_turns
        if served is not None:
            kind = code << SERVED_MS_BITS | now_ms - arrivals[0][1].last_read_ms
            served[kind] = served.get(kind, 0) + sum(handled)
        elif self.router.responses is not None:
            self.router.responses.record_turn(code, sum(handled), now_ms - arrivals[0][1].last_read_ms)
        assert len(handled) == len(arrivals)
        pairs = zip(arrivals, handled)  # noqa: B905 — the keyword costs as much as all the rest of this call
        return [(frames[count:], connection) for (frames, connection), count in pairs if count < len(frames)]

    def _handle_rest(self, frames: list[Frame], connection: Connection) -> None:
        if self.now_ms() >= self.vip_due_ms and not connection.is_vip:
            self.serve_vip()
        error = failure_of(connection.handle_frames, frames)
        if error is not None:
            log.error("A request from %s failed unexpectedly.", connection.peer_text, exc_info=error)
            connection.abort("a request of it failed unexpectedly")

    def requests(self, connection: Connection, commands: list[Command]) -> list[Command]:
        refusal = "The server is closing." if self._draining else self._refusal(connection)
        if refusal is not None:
            self.router.refuse_all(connection, commands, ResponseCode.SYSTEM_BUSY, refusal)
        else:
            first, began_ms = commands[0].code, self.now_ms()
            in_time = commands if self._is_calm(connection, began_ms) else self._refuse_late(connection, commands, began_ms)
            left = self.router.handle(connection, in_time)
            self._report_served(first, began_ms)
            return left
        return []

    def _refusal(self, connection: Connection) -> str | None:
        """Say why requests of this client are refused; None when they are served. Apache's clients try again later."""
        if self.quota is not None and connection.address is not None:
            debt_ms = connection.address.quota.debt_ms(connection.last_read_ms)
            if debt_ms > DEBT_SERVED_MS_MAX:
                return f"{connection.address.name} is {debt_ms} ms ahead of its quota. Send more slowly."
        return self._held.refusal(connection)

    def _is_calm(self, connection: Connection, now_ms: int) -> bool:
        return self.flow_control is None or self.flow_control.is_calm(self._waited_ms(connection, now_ms), now_ms)

    def _waited_ms(self, connection: Connection, now_ms: int) -> int:
        """Return how long the requests that are handled now have waited. Those of the VIP port are read early."""
        return 0 if connection.is_vip else self._lateness.late_ms(now_ms)

    def _record_round(self, late_ms: int, worked_ms: int, now_ms: int) -> None:
        if self._turn.observer is not None:
            self._turn.observer.record_round(late_ms)
        if self.flow_control is not None:
            self.flow_control.record_round(late_ms, worked_ms, now_ms)

    def _report_served(self, code: int, began_ms: int) -> int:
        """Report that requests were handled. Return the time now."""
        now_ms = self.now_ms()
        if now_ms - began_ms >= self._slow_ms:
            name = REQUESTS[code].name if code in REQUESTS else code
            outside.warning("Requests of one read took %d ms. The first one is %s.", now_ms - began_ms, name)
        if self.flow_control is not None:
            self.flow_control.record_served(code, now_ms - began_ms, now_ms)
        return now_ms

    def _refuse_late(self, connection: Connection, commands: list[Command], now_ms: int) -> list[Command]:
        """Refuse the requests that waited too long, and return the others."""
        assert self.flow_control is not None
        served: list[Command] = []
        waited_ms = self._waited_ms(connection, now_ms)
        worked_ms = self._lateness.worked_ms(waited_ms)
        for command in commands:
            why = self.flow_control.refusal(command.code, waited_ms, worked_ms, now_ms)
            if why is None:
                served.append(command)
            else:
                self.router.refuse_all(connection, [command], ResponseCode.SYSTEM_BUSY, why)
        return served

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.limits.scan_ms / 1000)
            now_ms = self.now_ms()
            for connection in list(self.connections):
                connection.check_time(now_ms)
            self._held.check()
            renew(self.tls, now_ms)
            self.addresses.forget_quiet(now_ms)
