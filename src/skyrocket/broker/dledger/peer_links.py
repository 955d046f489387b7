"""Requests to the other nodes of the group: one connection to each, opened when there is something to say.

While a connection is being opened, a few requests wait. When it cannot be opened or ends, the node is reported as unreachable:
what it did not answer is lost, and the state machine decides what to say again. A connection over which nothing has come for as
long as a request waits is opened anew: after a partition, TCP repeats what was lost only after a pause as long as the partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.errors import ConnectionLostError, NetError, RequestTimeoutError
from skyrocket.protocol.command import Command

log = logging.getLogger(__name__)

WAITING_MAX: Final = 64  # requests that wait for a connection; further ones are dropped, as a network may drop them
UNWRITTEN_BYTES_MAX: Final = 4 * 1024 * 1024  # in one connection; above it, no entries are pushed


class PeerLink:
    """The connection to one node."""

    def __init__(
        self,
        peer: str,
        address: str,
        dialer: Dialer,
        on_answer: Callable[[str, int, int, Command], None],
        on_unreachable: Callable[[str], None],
    ) -> None:
        self._peer = peer
        self._address = address
        self._dialer = dialer
        self._on_answer = on_answer
        self._on_unreachable = on_unreachable
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: list[tuple[int, Command, int]] = []
        self._is_reported = False  # the node is away, and the log says so

    @property
    def is_full(self) -> bool:
        return self._connection is not None and self._connection.unwritten_bytes > UNWRITTEN_BYTES_MAX

    def send(self, request_id: int, command: Command, timeout_ms: int) -> None:
        if self._connection is not None and self._connection.is_open:
            self._request(self._connection, request_id, command, timeout_ms)
            return
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append((request_id, command, timeout_ms))
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        try:
            self._connection = await self._dialer.connection(self._address)
        except NetError as error:
            if not self._is_reported:
                log.warning("Node %s of the group is away: %s", self._peer, error)
                self._is_reported = True
            self._waiting.clear()
            self._connecting = None
            self._on_unreachable(self._peer)
            return
        self._is_reported = False
        self._connecting = None
        waiting, self._waiting = self._waiting, []
        for request_id, command, timeout_ms in waiting:
            self._request(self._connection, request_id, command, timeout_ms)

    def _request(self, connection: Connection, request_id: int, command: Command, timeout_ms: int) -> None:
        future = connection.request(command, timeout_ms)
        future.add_done_callback(lambda done: self._finish(connection, request_id, command.code, done))
        future.add_done_callback(lambda done: self._check_silence(connection, timeout_ms, done))

    def _finish(self, connection: Connection, request_id: int, code: int, done: asyncio.Future[Command]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._on_answer(self._peer, request_id, code, done.result())
        elif isinstance(error, ConnectionLostError) and self._connection is connection:
            self._connection = None  # reported once for all requests that were under way
            self._on_unreachable(self._peer)

    def _check_silence(self, connection: Connection, timeout_ms: int, done: asyncio.Future[Command]) -> None:
        if done.cancelled() or not isinstance(done.exception(), RequestTimeoutError) or not connection.is_open:
            return
        if self._dialer.now_ms() - connection.last_read_ms >= timeout_ms:
            connection.abort("it has been silent for too long")

    def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()


class PeerLinks:
    """The connections to all other nodes."""

    def __init__(
        self,
        addresses: dict[str, str],
        dialer: Dialer,
        on_answer: Callable[[str, int, int, Command], None],
        on_unreachable: Callable[[str], None],
    ) -> None:
        """`on_answer` is called with the node's id, the number and the code of the request, and the response."""
        self._links = {peer: PeerLink(peer, address, dialer, on_answer, on_unreachable) for peer, address in addresses.items()}

    def is_full(self, peer: str) -> bool:
        """Whether so much waits for a node to read it that nothing long should follow."""
        return self._links[peer].is_full

    def send(self, peer: str, request_id: int, command: Command, timeout_ms: int) -> None:
        self._links[peer].send(request_id, command, timeout_ms)

    def close(self) -> None:
        for link in self._links.values():
            link.close()
