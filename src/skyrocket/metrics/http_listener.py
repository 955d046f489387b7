"""A small HTTP listener in a thread of its own, with an event loop of its own.

    thread of the server                  thread of the listener
    its event loop                        accept ─▶ read the head ─▶ route ─▶ write ─▶ close
      ◀─ short questions, with a limit ─────────────────┘

So a scraper that reads slowly, or sends garbage, costs the server nothing, and `/healthz` can tell that the server's event loop
stands still. Bounded are the connections (further ones are closed at once), the bytes of a request, and the time of an exchange,
from the first byte to the last.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, NamedTuple

from skyrocket.metrics.http_request import HttpError, HttpRequest, HttpResponse, parse_request, text_response
from skyrocket.net.errors import NetError

log = logging.getLogger(__name__)

Network = IPv4Network | IPv6Network
Route = Callable[[], Awaitable[HttpResponse]]


class HttpLimits(NamedTuple):
    connections_max: int = 16
    exchange_s: float = 10.0  # from the connection to the last byte of the answer


DEFAULT_LIMITS: Final = HttpLimits()
AFTER_FAILURE_S: Final = 0.1  # until the next connection is accepted
SETTLE_TURNS: Final = 8  # of the event loop: more than a connection needs from its acceptance to its end


class HttpListener:
    """`listen` starts the thread, `close` ends it. Both may be called from any thread."""

    def __init__(self, routes: Mapping[str, Route], limits: HttpLimits = DEFAULT_LIMITS) -> None:
        """`routes` has the page of each path. A route is awaited in the listener's event loop."""
        self.routes = routes
        self.limits = limits
        self.exchanges: set[HttpExchange] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._readers: Sequence[Network] = ()

    def listen(self, host: str, port: int, readers: Sequence[Network] = ()) -> int:
        """Start to accept connections, from `readers` alone if there are any. Return the port: for port 0 the system chooses one.

        Raise NetError when nobody can listen there.
        """
        self._readers = readers
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, port), family=family, backlog=self.limits.connections_max)
        except OSError as error:
            raise NetError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
        chosen: int = listening.getsockname()[1]
        is_up = threading.Event()
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._serve(listening, is_up),), name="skyrocket-metrics", daemon=True
        )
        self._thread.start()
        is_up.wait()
        return chosen

    def close(self) -> None:
        """Close all connections and end the thread."""
        if self._thread is None or self._loop is None:
            return
        with suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._thread = None

    # --- in the thread

    async def _serve(self, listening: socket.socket, is_up: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept, listening)
        is_up.set()
        await self._stopped.wait()
        self._loop.remove_reader(listening)
        listening.close()
        for _ in range(SETTLE_TURNS):  # connections that were just accepted open, and aborted ones close
            for exchange in list(self.exchanges):
                exchange.abort()
            await asyncio.sleep(0)

    def _accept(self, listening: socket.socket) -> None:
        assert self._loop is not None
        try:
            connection, address = listening.accept()
        except OSError:  # the client is gone again, or the process has no descriptor left: then the next one waits
            self._loop.remove_reader(listening)
            self._loop.call_later(AFTER_FAILURE_S, self._accept_again, listening)
            return
        if len(self.exchanges) >= self.limits.connections_max or not self._may_read(address[0]):
            connection.close()
            return
        connection.setblocking(False)
        exchange = HttpExchange(self)
        self.exchanges.add(exchange)
        exchange.opening = self._loop.create_task(self._open(exchange, connection))

    def _may_read(self, host: str) -> bool:
        return not self._readers or any(ip_address(host) in network for network in self._readers)

    def _accept_again(self, listening: socket.socket) -> None:
        if self._loop is not None and not self._stopped.is_set():
            self._loop.add_reader(listening, self._accept, listening)

    async def _open(self, exchange: HttpExchange, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: exchange, connection)
        except OSError:
            connection.close()
            self.exchanges.discard(exchange)


class HttpExchange(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self.opening: asyncio.Task[None] | None = None  # a reference: the event loop keeps none

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(self._listener.limits.exchange_s, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._answering is not None or self._transport.is_closing():
            return
        self._received += data
        try:
            request = parse_request(self._received)
        except HttpError as error:
            self._write(text_response(error.status, str(error)), "GET")
            return
        if request is not None:
            self._transport.pause_reading()  # whatever follows is not read
            self._answering = asyncio.get_running_loop().create_task(self._answer(request))
            self._answering.add_done_callback(self._report_failure)

    def eof_received(self) -> bool:
        return self._answering is not None  # a client may close its side behind its request

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._listener.exchanges.discard(self)
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _answer(self, request: HttpRequest) -> None:
        route = self._listener.routes.get(request.path)
        if route is None:
            pages = " and ".join(self._listener.routes)
            response = text_response(HTTPStatus.NOT_FOUND, f"There is no page {request.path[:160]}. There are {pages}.")
        else:
            response = await route()
        self._write(response, request.method)

    def _report_failure(self, answering: asyncio.Task[None]) -> None:
        error = None if answering.cancelled() else answering.exception()
        if error is not None:
            log.error("A page of the metrics listener failed.", exc_info=error)
            self._write(text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "This page failed. The server's log says why."), "GET")

    def _write(self, response: HttpResponse, method: str) -> None:
        if self._transport is not None:
            self._transport.write(response.encode(method))
            self._transport.close()  # once the client has read everything, or its time is over
