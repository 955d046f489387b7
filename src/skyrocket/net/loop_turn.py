"""A turn of the event loop: what all connections of a server brought is handled together.

In one turn the loop asks the kernel which sockets are readable, and reads them one after another. Clients that wait for each
answer bring one request each. If the server handled every read event by itself, it would append, dispatch and look for waiting
pulls once for each client. So read events only leave their frames here, and the end of the turn handles them all:

    the kernel's answer: A, B and C are readable
    ├── read A ──┬── read B ──┬── read C ──┤ end of the turn: handle A's, B's and C's frames, write to A, B and C
                                           ├───────────────────────────────────────────────────────────────┤

The end comes right behind the last read of the turn, without a timer. When many bytes have arrived before it, it comes earlier,
so the frames that wait are bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from skyrocket.net.connection import Connection

log = logging.getLogger(__name__)

TURN_BYTES_MAX: Final = 1024 * 1024  # read in one turn before its frames are handled
TURNS_PER_LOOK: Final = 64  # an observer is told of one turn in so many: a client that waits for each answer makes a turn of each


def call_soon(end: Callable[[], None]) -> None:
    """Call `end` when the loop has read every socket that is readable now."""
    asyncio.get_running_loop().call_soon(end)


class TurnObserver(Protocol):
    """Is told how long turns take, of one turn in TURNS_PER_LOOK. Nothing is measured without one."""

    def record_turn(self, waited_s: float, written_s: float | None) -> None:
        """A turn is over: how long its first frames waited to be handled, and how long it took to write the answers.

        None: a handler wrote all of them (`Connection.send_now`).
        """

    def record_round(self, late_ms: int) -> None:
        """A round of the event loop is over, and was late (`net/lateness.py`)."""


class LoopTurn:
    def __init__(
        self,
        handle: Callable[[Sequence[Connection]], None],
        call_soon: Callable[[Callable[[], None]], None] = call_soon,
    ) -> None:
        """`handle` takes and handles the frames that arrived on these connections."""
        self._handle = handle
        self._call_soon: Callable[[Callable[[], None]], object] = call_soon
        self._arrived: dict[Connection, None] = {}  # connections with frames, in order
        self._arrived_bytes = 0
        self._unflushed: list[Connection] = []
        self._is_ending = False
        self._is_scheduled = False
        self.observer: TurnObserver | None = None
        self._observer_now: TurnObserver | None = None  # None: this turn is not observed
        self._turns = 0  # since the last one that was observed
        self._began_s = 0.0  # when the first frames of the turn arrived

    def observe(self, observer: TurnObserver) -> None:
        """Tell an observer how long turns take from now on."""
        self.observer = observer
        self._look()

    def _look(self) -> None:
        """Observe the turn that begins now."""
        self._observer_now, self._turns, self._began_s = self.observer, 0, perf_counter()

    def add(self, connection: Connection, size_bytes: int) -> None:
        """Take note that frames arrived, in a read event of so many bytes."""
        if self._observer_now is not None and not self._arrived:
            self._began_s = perf_counter()
        self._arrived[connection] = None
        self._arrived_bytes += size_bytes
        if not self._is_scheduled:
            self._schedule()
        if self._arrived_bytes > TURN_BYTES_MAX and not self._is_ending:
            self.end()

    def flush_soon(self, connection: Connection) -> None:
        """Write to the connection at the end of the turn."""
        self._unflushed.append(connection)
        if not self._is_scheduled:
            self._schedule()

    def end_for(self, connection: Connection) -> None:
        """End the turn now if frames of this connection wait: it is about to close."""
        if connection in self._arrived and not self._is_ending:
            self.end()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_ending:
            self._is_scheduled = True
            if self._call_soon is call_soon:  # the loop stays the same, and asking which one runs is a system call
                self._call_soon = asyncio.get_running_loop().call_soon
            self._call_soon(self._end_scheduled)

    def _end_scheduled(self) -> None:
        self._is_scheduled = False
        self.end()

    def end(self) -> None:
        """Handle the frames that arrived, then write to every connection that something was sent to."""
        self._is_ending = True
        arrived, self._arrived, self._arrived_bytes = list(self._arrived), {}, 0
        observer = self._observer_now if arrived else None
        waited_s = handled_s = 0.0
        try:
            if observer is not None:
                waited_s = perf_counter() - self._began_s
            if arrived:
                self._handle(arrived)
            if observer is not None:
                handled_s = perf_counter()
            unflushed, self._unflushed = self._unflushed, []
            for connection in unflushed:
                connection.flush()
            for connection in arrived:
                connection.finish_arrived()
        finally:
            self._is_ending = False
        if observer is not None:
            observer.record_turn(waited_s, perf_counter() - handled_s if unflushed else None)
            self._observer_now = None
        self._turns += 1
        if self._turns >= TURNS_PER_LOOK and self.observer is not None:
            self._look()
        if self._arrived or self._unflushed:  # something arrived or was sent in between
            self._schedule()
