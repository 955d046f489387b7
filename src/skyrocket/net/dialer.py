"""Outgoing connections: one to each address, shared by all callers, and those that one caller opens for itself."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from skyrocket.clock import monotonic_ms
from skyrocket.net.connection import Connection
from skyrocket.net.errors import ConnectError
from skyrocket.net.limits import NetLimits
from skyrocket.net.quota import QuotaRates
from skyrocket.net.router import Router
from skyrocket.net.tls import renew
from skyrocket.net.vip import NEVER_MS
from skyrocket.protocol.command import Command
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)

FRAMES_BEFORE_FIRST_ANSWER: Final = 1  # what `Connection.frames_read` is until the peer has sent a frame
_CLOSING_TURNS = 32  # 0.5 s in total


class Dialer:
    """Opens connections. `router` handles the requests that peers send to us."""

    def __init__(
        self,
        router: Router | None = None,
        limits: NetLimits | None = None,
        tls: ssl.SSLContext | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        self.router = router or Router()
        self.limits = limits or NetLimits()
        self.tls: ssl.SSLContext | None = None  # for incoming connections, of which a dialer has none
        self.tls_only = False
        self.quota: QuotaRates | None = None
        self.reads_always = True
        self.vip_due_ms = NEVER_MS
        self.now_ms = now_ms
        self.sign: Callable[[Command], None] | None = None  # adds credentials to what `request` sends
        self.on_opened: list[Callable[[str, Connection], None]] = []  # called with the address before the connection is used
        self.on_closed: list[Callable[[Connection, str], None]] = []  # called with the reason
        self._client_tls = tls
        self._connections: dict[str, Connection] = {}
        self._connecting: dict[str, asyncio.Task[Connection]] = {}
        self._unshared: set[Connection] = set()
        self._scan_task: SupervisedTask | None = None
        self._closed = False

    def abandon(self) -> None:
        """Drop the connections in a forked child. They belong to the parent, so the peers must not notice."""
        for connection in self._connections.values():
            connection.abandon()

    def open_connection(self, address: str) -> Connection | None:
        """Return the connection to `host:port` if one is open."""
        found = self._connections.get(address)
        return found if found is not None and found.is_open else None

    async def connection(self, address: str) -> Connection:
        """Return the connection to `host:port`, and open it if necessary."""
        found = self.open_connection(address)
        if found is not None:
            return found
        task = self._connecting.get(address)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._connect(address))
            self._connecting[address] = task
            task.add_done_callback(lambda done: self._finish_connecting(address, done))
        return await asyncio.shield(task)  # a caller that is cancelled does not cancel the connection for the others

    async def open(self, address: str) -> Connection:
        """Open a connection to `host:port` that nobody else uses. Its caller closes it, or `close` does."""
        connection = await self._open(address)
        if connection.is_open:
            self._unshared.add(connection)
        return connection

    async def request(self, address: str, command: Command, timeout_ms: int | None = None) -> Command:
        if self.sign is not None:
            self.sign(command)
        return await (await self.connection(address)).request(command, timeout_ms)

    def _finish_connecting(self, address: str, done: asyncio.Task[Connection]) -> None:
        self._connecting.pop(address, None)
        if not done.cancelled():
            done.exception()  # mark it as retrieved: the caller may be gone

    async def close(self) -> None:
        self._closed = True
        unfinished = list(self._connecting.values())
        if self._scan_task is not None:
            await self._scan_task.close()
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for connection in self._all():
            connection.close("we are closing")
        for turn in range(_CLOSING_TURNS):  # time for TLS to shut down and for buffered bytes to leave
            if not self._all():
                return
            await asyncio.sleep(turn / 1000)
        for connection in self._all():
            connection.abort("we are closing")
        await asyncio.sleep(0)

    def _all(self) -> list[Connection]:
        return [*self._connections.values(), *self._unshared]

    async def _connect(self, address: str) -> Connection:
        connection = await self._open(address)
        self._connections[address] = connection
        for callback in self.on_opened:
            callback(address, connection)
        return connection

    async def _open(self, address: str) -> Connection:
        if self._closed:
            raise ConnectError("The dialer is closed.")
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise ConnectError(f"'{address}' is not an address such as 127.0.0.1:9876.")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.limits.connect_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: Connection(self),
                    host.strip("[]"),
                    int(port),
                    ssl=self._client_tls,
                    server_hostname=_name(self._client_tls, host),
                )
        except (OSError, TimeoutError) as error:
            raise ConnectError(f"{address} cannot be reached: {_reason(error, self._client_tls is not None)}.") from error
        if self._scan_task is None:
            self._scan_task = SupervisedTask("time-outs of connections", self._scan)
        return connection

    # --- called by connections

    def serve_vip(self) -> None:
        raise AssertionError("a dialer has no VIP port")

    def accept(self, connection: Connection) -> bool:
        connection.frames_read = FRAMES_BEFORE_FIRST_ANSWER  # the peer need not send the first frame
        return not self._closed

    def forget(self, connection: Connection, reason: str) -> None:
        log.debug("The connection to %s ended: %s.", connection.peer_text, reason)
        self._unshared.discard(connection)
        for address, known in list(self._connections.items()):
            if known is connection:
                del self._connections[address]
        for callback in self.on_closed:
            callback(connection, reason)

    def handle_arrived(self, connection: Connection, size_bytes: int) -> None:  # noqa: ARG002
        """Handle the frames at once: a client has few connections."""
        frames = connection.take_arrived()
        if frames:
            path = self.router.fast_path(frames[0]) if not connection.deferred else None
            handled: list[int] = []
            if path is not None:
                path.handler([(frames, connection)], handled)
            left = frames[sum(handled) :]
            if left:
                connection.handle_frames(left)
        connection.finish_arrived()

    def handle_vip(self, connection: Connection, size_bytes: int) -> None:  # noqa: ARG002
        raise AssertionError("a dialer has no VIP port")

    def end_turn(self, connection: Connection) -> None:
        """Do nothing: no frames wait."""

    def flush_soon(self, connection: Connection) -> None:
        asyncio.get_running_loop().call_soon(connection.flush)

    def requests(self, connection: Connection, commands: list[Command]) -> list[Command]:
        return self.router.handle(connection, commands)

    def hold(self, connection: Connection, size_bytes: int) -> None:
        """Allow it: the peers that we chose to talk to are few."""

    async def _scan(self) -> None:
        while True:
            await asyncio.sleep(self.limits.scan_ms / 1000)
            now_ms = self.now_ms()
            renew(self._client_tls, now_ms)
            for connection in self._all():
                connection.check_time(now_ms)


def _name(tls: ssl.SSLContext | None, host: str) -> str | None:
    return None if tls is None else host.strip("[]")


def _reason(error: OSError, uses_tls: bool) -> str:
    """Say why a connection could not be opened. Errors of TLS often have no text of their own."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed ({error.reason or error}); the port may be one without TLS"
    if uses_tls and isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "it closed the connection during the TLS handshake; the port may be one without TLS"
    if isinstance(error, TimeoutError):
        return "it does not answer the TLS handshake; the port may be one without TLS" if uses_tls else "it does not answer"
    return error.strerror or str(error) or type(error).__name__
