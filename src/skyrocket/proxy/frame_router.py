"""The router of a proxy, which passes frames on: it gives all frames of a connection to one function, and decodes none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from skyrocket.net.connection import Connection
from skyrocket.net.router import Arrival, FastPathRow, Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.responses import ResponseCode
from skyrocket.supervised_task import failure_of

log = logging.getLogger(__name__)

_DRAIN_LOOK_S = 0.01


class FrameRouter(Router):
    def __init__(self, handle: Callable[[list[Frame], Connection], None], is_busy: Callable[[], bool] | None = None) -> None:
        """`is_busy` says whether responses are due: a server that closes waits for them."""
        super().__init__()
        self._handle_frames = handle
        self._is_busy = is_busy
        self._row = FastPathRow(b"", self._handle_arrivals, 0)

    def fast_path(self, first: Frame) -> FastPathRow:  # noqa: ARG002
        return self._row

    def _handle_arrivals(self, arrivals: Sequence[Arrival], handled: list[int]) -> None:
        for frames, connection in arrivals:
            error = failure_of(self._handle_frames, frames, connection)
            if error is not None:  # the other connections of this turn are not to blame
                log.error("A frame from %s failed unexpectedly.", connection.peer_text, exc_info=error)
                connection.abort("a frame of it failed unexpectedly")
            handled.append(len(frames))

    def handle(self, connection: Connection, commands: list[Command]) -> list[Command]:
        """Refuse requests that a server has kept from the fast path: their client holds too much, or goes beyond its quota."""
        self.refuse_all(connection, commands, ResponseCode.SYSTEM_BUSY, "The proxy has too much to do for this client.")
        return []

    async def drain(self) -> None:
        while self._is_busy is not None and self._is_busy():  # noqa: ASYNC110 — every response may be the last
            await asyncio.sleep(_DRAIN_LOOK_S)
