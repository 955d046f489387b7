"""The connection of one client to one server behind the proxy, and the requests on it that wait for a response.

    closed ── forward ──▶ opening ──▶ open ── lost, silent ──▶ closed
                          requests    requests                 requests that wait
                          queue up    pass                     are answered with an error

A request passes as the bytes that the client sent, so its signature stays valid. Its number is unique on this connection, because
the connection is this link's alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from skyrocket.net.connection import Connection
from skyrocket.net.errors import NetError, TooManyRequestsError
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame, frame_start
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import CONNECTION_LOST, NOT_SENT
from skyrocket.proxy.limits import ProxyLimits

log = logging.getLogger(__name__)

_PREFIX_BYTES: Final = 8
_LONG_POLLS: Final = frozenset(
    {
        *(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, RequestCode.NOTIFICATION),
        *(RequestCode.POP_MESSAGE, RequestCode.POP_LITE_MESSAGE),
    }
)


class InFlight:
    """What all clients' requests take in the proxy's memory."""

    def __init__(self) -> None:
        self.size_bytes = 0  # of those that wait for a response
        self.unread_bytes = 0  # of requests that servers have not read: each link counts its own at each use and each scan


class ForwardedRequest(NamedTuple):
    """A request that waits for its response."""

    request: Command  # without its body
    size_bytes: int
    since_ms: int
    answered: asyncio.Future[Frame | None] | None  # None: the response goes to the client


class OpenConnection(NamedTuple):
    """A connection to a server, and the address that it has."""

    address: str
    connection: Connection


class LinkOwner(Protocol):
    """The session of the client."""

    limits: ProxyLimits
    in_flight: InFlight

    def now_ms(self) -> int: ...

    def on_link_open(self, link: ServerLink, connection: Connection) -> None:
        """A connection is open, and nothing was sent over it yet."""

    def on_link_failed(self, link: ServerLink) -> None:
        """No connection could be opened."""

    def fail(self, request: Command, sentence: str, failure: str) -> None:
        """Answer the client's request with an error. `failure` says what became of the request: a value of PROXY_FAILURE."""


def pieces_of(frame: Frame) -> list[bytes | memoryview]:
    """Return the bytes of a frame, without a copy of its body."""
    start = frame_start(frame.serialization, frame.header, len(frame.body))
    return [start, frame.body] if frame.body else [start]


class ServerLink:
    def __init__(self, owner: LinkOwner, name: str, connect: Callable[[], Awaitable[OpenConnection]]) -> None:
        """`name` is the broker's, and empty for a nameserver. `connect` finds the server and opens a connection to it. It raises
        NetError when it cannot."""
        self._owner = owner
        self.name = name
        self._connect = connect
        self.connection: Connection | None = None
        self.address = ""  # of the connection
        self._opening: asyncio.Task[OpenConnection] | None = None
        self._queued: list[Frame] = []  # while the connection opens
        self._queued_bytes = 0
        self._waiting: dict[int, ForwardedRequest] = {}  # the oldest first
        self._counted_bytes = 0  # this link's share of InFlight.unread_bytes

    @property
    def is_open(self) -> bool:
        return self.connection is not None and self.connection.is_open

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    @property
    def is_answering(self) -> bool:
        """Whether a response is due soon: long polls may wait for messages."""
        return any(waiting.request.code not in _LONG_POLLS for waiting in self._waiting.values())

    def waits_for(self, code: int) -> bool:
        """Whether a request with this code waits for its response."""
        return any(waiting.request.code == code for waiting in self._waiting.values())

    def forward(self, frame: Frame, request: Command, answered: asyncio.Future[Frame | None] | None = None) -> None:
        """Pass a request on. Its response goes to the client, or to `answered`. Raise TooManyRequestsError if it cannot wait."""
        if self.connection is not None and not self.connection.is_open:
            self.lose("it is closing")  # what waits for it gets no response any more, and what comes now needs another one
        size_bytes = _PREFIX_BYTES + len(frame.header) + len(frame.body)
        charged_bytes = size_bytes + self._owner.limits.request_overhead_bytes
        self._check_room(charged_bytes)
        self._count_unread(self._unread_bytes + size_bytes)
        if not request.is_oneway:
            known = self._waiting.pop(request.opaque, None)  # the client has given that one up
            if known is not None:
                self._finish(known, None)
            request.body = b""  # the frame has it
            self._waiting[request.opaque] = ForwardedRequest(request, charged_bytes, self._owner.now_ms(), answered)
            self._owner.in_flight.size_bytes += charged_bytes
        if self.connection is not None:
            self.connection.send(pieces_of(frame))
            return
        self._queued.append(frame)
        self._queued_bytes += size_bytes
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._connect())
            self._opening.add_done_callback(self._on_connected)

    def _check_room(self, charged_bytes: int) -> None:
        limits, unread_bytes = self._owner.limits, self._unread_bytes
        if max(len(self._waiting), len(self._queued)) >= limits.unanswered_max:
            raise TooManyRequestsError(f"{limits.unanswered_max} requests of this client wait for the server already.")
        if self._owner.in_flight.size_bytes + charged_bytes > limits.unanswered_max_bytes:
            raise TooManyRequestsError("Requests of all clients that wait for their response fill the proxy's memory.")
        if unread_bytes > limits.unread_max_bytes:
            raise TooManyRequestsError(f"The server has not read {unread_bytes} bytes of this client.")
        self._count_unread(unread_bytes)
        if unread_bytes and self._owner.in_flight.unread_bytes > limits.unread_all_max_bytes:
            raise TooManyRequestsError(f"Servers have not read {self._owner.in_flight.unread_bytes} bytes of all clients.")

    @property
    def _unread_bytes(self) -> int:
        return self._queued_bytes if self.connection is None else self.connection.unwritten_bytes

    def _count_unread(self, unread_bytes: int) -> None:
        self._owner.in_flight.unread_bytes += unread_bytes - self._counted_bytes
        self._counted_bytes = unread_bytes

    def _on_connected(self, opening: asyncio.Future[OpenConnection]) -> None:
        self._opening = None
        if opening.cancelled():
            return
        error = opening.exception()
        if error is not None:
            if not isinstance(error, NetError):
                log.error("A connection of a client could not be opened.", exc_info=error)
            self._drop(str(error), NOT_SENT)
            self._owner.on_link_failed(self)
            return
        address, connection = opening.result()
        if not connection.is_open:
            self._drop(f"{address} closed the connection at once.", NOT_SENT)
            return
        self.address, self.connection = address, connection
        self._owner.on_link_open(self, connection)
        for frame in self._take_queued():
            connection.send(pieces_of(frame))

    def _take_queued(self) -> list[Frame]:
        queued, self._queued, self._queued_bytes = self._queued, [], 0
        return queued

    def answer(self, response: Command, frame: Frame) -> ForwardedRequest | None:
        """Take note of a response. Return the request, if its response is for the client."""
        waiting = self._waiting.pop(response.opaque, None)
        if waiting is None:
            return None
        self._finish(waiting, frame)
        return None if waiting.answered is not None else waiting

    def lose(self, reason: str) -> None:
        """The connection has ended: answer every request that waits. Nobody knows whether the server carried it out."""
        address, self.connection = self.address, None
        self._drop(f"The proxy's connection to {address} ended: {reason}.", CONNECTION_LOST)

    def _drop(self, sentence: str, failure: str) -> None:
        self._take_queued()
        self._count_unread(0)
        waiting, self._waiting = list(self._waiting.values()), {}
        for each in waiting:
            self._give_up(each, sentence, failure)

    def _give_up(self, waiting: ForwardedRequest, sentence: str, failure: str) -> None:
        self._finish(waiting, None)
        if waiting.answered is None:
            self._owner.fail(waiting.request, sentence, failure)

    def _finish(self, waiting: ForwardedRequest, frame: Frame | None) -> None:
        self._owner.in_flight.size_bytes -= waiting.size_bytes
        if waiting.answered is not None and not waiting.answered.done():
            waiting.answered.set_result(frame)

    def check_time(self, now_ms: int) -> None:
        """Close a connection over which nothing comes while requests wait, and give up requests that have waited for too long."""
        limits, connection = self._owner.limits, self.connection
        self._count_unread(self._unread_bytes)
        if connection is None or not self._waiting:
            return
        oldest_ms = next(iter(self._waiting.values())).since_ms
        silent_ms = limits.silent_ms if self.name else limits.nameserver_silent_ms
        if now_ms - max(oldest_ms, connection.last_read_ms) > silent_ms:
            connection.abort("it has not answered for too long")
            self.lose("it has not answered for too long")
            return
        for waiting in [each for each in self._waiting.values() if now_ms - each.since_ms > limits.unanswered_ms]:
            del self._waiting[waiting.request.opaque]
            self._give_up(waiting, f"{self.address} has not answered this request.", CONNECTION_LOST)

    async def close(self) -> None:
        """The client has gone: nobody waits for a response any more. What it has sent still goes to the server."""
        opening = self._opening
        if opening is not None:
            if self._queued:
                await asyncio.wait([opening])
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        for each in self._waiting.values():
            self._finish(each, None)
        self._waiting.clear()
        self._take_queued()
        self._count_unread(0)
