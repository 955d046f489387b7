"""Routes a request to the handler of its code, and turns the handler's result or error into a response.

A handler is a plain function. It returns a command, the encoded bytes of one, or None: then it parked the request (or the request
is oneway) and sends the response itself. A handler that must wait is a coroutine function. A group handler receives all
neighbouring requests of its codes in one read event. A fast-path handler is for a request that comes a hundred thousand times a
second: it receives undecoded frames of all connections that brought such requests in a turn of the event loop. Of each connection
it handles as many of the first frames as it can.

A guard (`set_guard`) decides about every request first: access control is checked here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from skyrocket.net.connection import Connection, Sendable
from skyrocket.net.errors import NetError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import REQUESTS
from skyrocket.protocol.responses import ResponseCode

log = logging.getLogger(__name__)
outside = OutsideLog(log)

Answer = Command | Sendable | None
Handler = Callable[[Command, Connection], Answer | Coroutine[Any, Any, Answer]]
GroupHandler = Callable[[list[Command], Connection], None]
Arrival = tuple[list[Frame], Connection]  # the frames that a connection brought in a turn of the event loop
TurnHandler = Callable[[Sequence[Arrival], list[int]], None]  # appends how many frames of each arrival it has handled
FastPathHandler = Callable[[list[Frame], Connection], int]

BINARY_START_BYTES = 2  # the request code
GROUP_MAX = 256  # requests that a group handler gets at once: more would take longer than a turn
TASKS_MAX = 10_000  # requests whose handlers wait; further ones are refused


def _header_key(header: bytes, *, is_binary: bool) -> bytes:
    """Return the part of a header that holds the request code; empty when JSON does not begin with one member of several."""
    return header[: BINARY_START_BYTES if is_binary else header.find(b",") + 1]


class FastPathRow(NamedTuple):
    """One row: the fast-path handler for read events whose first header begins with `start`."""

    start: bytes
    handler: TurnHandler
    code: int  # the request code that statistics count its requests as


class Refusal(NamedTuple):
    """The response code and remark of a request that no handler may see."""

    code: ResponseCode
    remark: str


class RequestGuard(Protocol):
    """Access control: decides about every request before a handler sees it, on the general path and on the fast paths."""

    def refusal(self, command: Command, connection: Connection) -> Refusal | None:
        """Say why a request is refused; None when it may be handled. It is asked once for a request that is handled."""

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        """Take note that a request was refused."""

    def admit(self, frames: list[Frame], connection: Connection) -> list[Frame]:
        """Return the first frames that a fast path may handle, without their credentials. The next one is not admitted."""


class RequestAudit(Protocol):
    """Takes note of administrative requests, and of how they are answered."""

    @property
    def codes(self) -> frozenset[int]:
        """The requests that it takes note of."""

    def begin(self, command: Command, connection: Connection) -> Callable[[Answer], None]:
        """Look at a request before its handler does. Return what takes note of the answer; None: there is none."""

    def record_refusal(self, command: Command, connection: Connection, refusal: Refusal) -> None:
        """Take note that a request was refused, where there is no guard."""


class ResponseObserver(Protocol):
    """Is told of answers, and how long requests took. Times are those of the connections' clock, in milliseconds."""

    def record_turn(self, code: int, count: int, took_ms: int) -> None:
        """A fast path has handled requests of a turn. Their answers may wait, as below."""

    def record_group(self, code: int, count: int, arrived_ms: int) -> None:
        """Requests of one read event were handled. Their answers may wait until what was appended for them is confirmed."""

    def record_answered(self, code: int, count: int, took_ms: int) -> None:
        """Requests of a turn were answered with success."""

    def record_response(
        self, code: int, response: int, arrived_ms: int, *, is_long_polling: bool = False, is_oneway: bool = False
    ) -> None:
        """One request was answered."""


class RefusedError(Exception):
    """Raised by a handler to refuse a request with this response code and remark."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class Router:
    def __init__(self, error_codes: dict[type[Exception], ResponseCode] | None = None) -> None:
        """`error_codes` maps errors of the layers below to response codes. The error's text is the remark."""
        self._handlers: dict[int, Handler] = {}
        self._groups: dict[int, GroupHandler] = {}
        self._fast_paths: dict[bytes, FastPathRow] = {}  # by the first bytes of the start, which hold the request code
        self._errors: dict[type[Exception], ResponseCode] = {
            ProtocolError: ResponseCode.SYSTEM_ERROR,
            NetError: ResponseCode.SYSTEM_ERROR,
            **(error_codes or {}),
        }
        self._caught: tuple[type[Exception], ...] = (RefusedError, *self._errors)
        self._tasks: set[asyncio.Task[None]] = set()
        self._guard: RequestGuard | None = None
        self.responses: ResponseObserver | None = None  # None: nobody is told of answers
        self._refused = 0  # requests of a group handler that were refused
        self.audit: RequestAudit | None = None
        self._slow_ms = sys.maxsize
        self._now_ms: Callable[[], int] = lambda: 0
        self._guarded: dict[TurnHandler, TurnHandler] = {}  # what a guard stands before; one for each handler
        self.refusal_of: Callable[[int], Refusal | None] | None = None
        """Says why requests of a code are refused, whatever they contain. None: no request is refused in this way."""

    def add(self, code: int, handler: Handler) -> None:
        assert code not in self.codes, f"request {code} has a handler"
        self._handlers[code] = handler

    def add_group(self, codes: Iterable[int], handler: GroupHandler) -> None:
        for code in codes:
            assert code not in self.codes, f"request {code} has a handler"
            self._groups[code] = handler

    def add_fast_path(self, start: bytes, handler: FastPathHandler, code: int) -> None:
        """Add a handler for read events whose first header begins with `start`. It gets the frames of one connection.

        The start holds the request code: in JSON up to the comma behind it, in a binary header two bytes.
        The handler returns how many of the first frames it handled. The other frames go to the handlers of their codes, which
        must accept the same requests. Statistics count the handled frames as requests of `code`.
        """

        def handle(arrivals: Sequence[Arrival], handled: list[int]) -> None:
            handled += [handler(frames, connection) for frames, connection in arrivals]

        self.add_turn_path(start, handle, code)

    def add_turn_path(self, start: bytes, handler: TurnHandler, code: int) -> None:
        """Like `add_fast_path`, for a handler that gets the frames of all connections in a turn together."""
        key = _header_key(start, is_binary=not start.startswith(b"{"))
        assert key, f"{start!r} is too short for the start of a header"
        assert key not in self._fast_paths, f"headers that begin with {key!r} have a fast path"
        self._fast_paths[key] = FastPathRow(start, self._behind_guard(handler), int(code))

    def set_guard(self, guard: RequestGuard) -> None:
        """Let a guard decide about every request from now on. Without one, requests cost nothing more."""
        assert self._guard is None, "there is a guard"
        self._guard = guard
        rows = self._fast_paths.items()
        self._fast_paths = {key: row._replace(handler=self._behind_guard(row.handler)) for key, row in rows}

    def _behind_guard(self, handler: TurnHandler) -> TurnHandler:
        """Return a handler that gets only the frames that the guard admits. The general path handles, or refuses, the others."""
        guard = self._guard
        if guard is None:
            return handler
        if handler in self._guarded:  # a server gathers the frames of one handler
            return self._guarded[handler]

        def handle(arrivals: Sequence[Arrival], handled: list[int]) -> None:
            admitted = [(guard.admit(frames, connection), connection) for frames, connection in arrivals]
            passing = [arrival for arrival in admitted if arrival[0]]
            counts: list[int] = []
            if passing:
                handler(passing, counts)
            left = iter(counts)
            handled += [next(left) if frames else 0 for frames, _ in admitted]

        self._guarded[handler] = handle
        return handle

    @property
    def codes(self) -> set[int]:
        return self._handlers.keys() | self._groups.keys()

    def log_waits(self, slow_ms: int, now_ms: Callable[[], int]) -> None:
        """Log handlers that wait for longer from now on."""
        self._slow_ms, self._now_ms = slow_ms, now_ms

    @property
    def waiting(self) -> int:
        """Return the number of requests whose handlers wait."""
        return len(self._tasks)

    def fast_path(self, first: Frame) -> FastPathRow | None:
        """Return the fast path of a read event that begins with this frame."""
        serialization, header, _ = first
        # As `_header_key` does: a call would cost more, for each connection of each turn.
        path = self._fast_paths.get(header[:BINARY_START_BYTES] if serialization else header[: header.find(b",") + 1])
        if path is None or not header.startswith(path.start):
            return None
        return path if self.refusal_of is None or self.refusal_of(path.code) is None else None

    def handle(self, connection: Connection, commands: list[Command]) -> list[Command]:
        """Handle the requests of a read event, in order. Return those that are left because the connection `must_stop`."""
        checks = self._guard is not None or self.refusal_of is not None
        at = 0
        while at < len(commands) and not (connection.must_stop if at else connection.is_full):  # one at least, in each turn
            refusal = self._refusal(connection, commands[at]) if checks else None
            if refusal is not None:
                self._refuse_before(connection, commands[at], refusal)
                at += 1
                continue
            group = self._groups.get(commands[at].code)
            if group is None:
                self._handle_one(connection, commands[at])
                at += 1
                continue
            stop = at + 1
            last = min(len(commands), at + GROUP_MAX)
            while stop < last and self._groups.get(commands[stop].code) is group:
                refusal = self._refusal(connection, commands[stop]) if checks else None
                if refusal is not None:
                    break
                stop += 1
            self._handle_group(group, commands[at:stop], connection)
            at = stop
            if refusal is not None:  # now: the guard has taken what it would ask for in the next round
                self._refuse_before(connection, commands[at], refusal)
                at += 1
        return commands[at:]

    def _handle_group(self, group: GroupHandler, commands: list[Command], connection: Connection) -> None:
        if self.responses is None:
            group(commands, connection)
            return
        self._refused = 0
        group(commands, connection)
        served = len(commands) - self._refused
        if served:
            self.responses.record_group(commands[0].code, served, connection.last_read_ms)

    def _refusal(self, connection: Connection, command: Command) -> Refusal | None:
        """Say why no handler may see a request. Ask once for each request: a guard takes the signature of what it admits.

        The guard comes first: a stranger learns nothing else about the server.
        """
        refusal = None if self._guard is None else self._guard.refusal(command, connection)
        return refusal or (None if self.refusal_of is None else self.refusal_of(command.code))

    def _refuse_before(self, connection: Connection, command: Command, refusal: Refusal) -> None:
        """Answer a request that no handler may see."""
        if self._guard is not None:
            self._guard.record_refusal(command, connection, refusal)
        elif self.audit is not None and command.code in self.audit.codes:
            self.audit.record_refusal(command, connection, refusal)
        self.refuse_all(connection, [command], refusal.code, refusal.remark)

    def refuse_all(self, connection: Connection, commands: list[Command], code: ResponseCode, remark: str) -> None:
        """Answer all of these requests with the same code and remark, without calling a handler."""
        for command in commands:
            if not command.is_oneway:
                connection.send_command(command.response(code, remark=remark))
            self._observe(command, code, connection)

    def refuse(self, connection: Connection, command: Command, error: Exception) -> None:
        """Answer a request with an error's response code and text. A oneway request gets no answer."""
        response = self.error_response(command, error)
        if not command.is_oneway:
            connection.send_command(response)
        self._refused += 1
        self._observe(command, response.code, connection)

    def _observe(self, command: Command, response: int, connection: Connection, arrived_ms: int | None = None) -> None:
        """Tell the observer of an answer. `arrived_ms` is when the request was read, if others were read since."""
        if self.responses is not None:
            arrived_ms = connection.last_read_ms if arrived_ms is None else arrived_ms
            self.responses.record_response(command.code, response, arrived_ms, is_oneway=command.is_oneway)

    def _handle_one(self, connection: Connection, command: Command) -> None:
        handler = self._handlers.get(command.code)
        if handler is None:
            code, remark = ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"Request code {command.code} is not supported."
            self.refuse_all(connection, [command], code, remark)
            return
        if self.audit is not None and command.code in self.audit.codes:
            handler = self._audited(handler, self.audit.begin(command, connection))
        try:
            answer = handler(command, connection)
        except self._caught as error:
            self.refuse(connection, command, error)
            return
        if asyncio.iscoroutine(answer):
            self._start_task(connection, command, answer)
        else:
            self._send(connection, command, answer)

    def _audited(self, handler: Handler, record: Callable[[Answer], None]) -> Handler:
        """Return a handler that takes note of its answer."""

        async def finish(command: Command, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
            try:
                answer = await coroutine
            except Exception as error:
                record(self.error_response(command, error))
                raise
            record(answer)
            return answer

        def handle(command: Command, connection: Connection) -> Answer | Coroutine[Any, Any, Answer]:
            try:
                answer = handler(command, connection)
            except Exception as error:
                record(self.error_response(command, error))
                raise
            if asyncio.iscoroutine(answer):
                return finish(command, answer)
            record(answer)
            return answer

        return handle

    def error_response(self, command: Command, error: Exception) -> Command:
        """Return the response for an error, by the table of error codes."""
        if isinstance(error, RefusedError):
            return command.response(error.code, remark=str(error))
        code = next((code for kind, code in reversed(self._errors.items()) if isinstance(error, kind)), ResponseCode.SYSTEM_ERROR)
        return command.response(code, remark=str(error))

    def _send(self, connection: Connection, command: Command, answer: Answer, arrived_ms: int | None = None) -> None:
        if isinstance(answer, Command):  # a handler that returns bytes tells the observer itself
            self._observe(command, answer.code, connection, arrived_ms)
        if answer is None or command.is_oneway:
            return
        connection.send(encode_command(answer) if isinstance(answer, Command) else answer)

    def _start_task(self, connection: Connection, command: Command, coroutine: Coroutine[Any, Any, Answer]) -> None:
        if len(self._tasks) >= TASKS_MAX:
            coroutine.close()
            self.refuse_all(connection, [command], ResponseCode.SYSTEM_BUSY, f"{TASKS_MAX} requests wait already.")
            return
        task = asyncio.get_running_loop().create_task(self._finish(connection, command, coroutine))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._forget_task(done, connection, command))

    def _forget_task(self, task: asyncio.Task[None], connection: Connection, command: Command) -> None:
        """Answer an unexpected failure too: otherwise the client would wait for its time-out."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            log.error("Request %d from %s failed unexpectedly.", command.code, connection.peer_text, exc_info=error)
            self.refuse(connection, command, error)

    async def _finish(self, connection: Connection, command: Command, coroutine: Coroutine[Any, Any, Answer]) -> None:
        arrived_ms = None if self.responses is None else connection.last_read_ms
        began_ms = self._now_ms()
        try:
            answer = await coroutine
        except self._caught as error:
            answer = self.error_response(command, error)
        waited_ms = self._now_ms() - began_ms
        if waited_ms >= self._slow_ms:
            name = REQUESTS[command.code].name if command.code in REQUESTS else command.code
            outside.warning("Request %s was answered after %d ms.", name, waited_ms)
        self._send(connection, command, answer, arrived_ms)

    async def drain(self) -> None:
        """Wait until no handler waits."""
        while self._tasks:
            await asyncio.wait(self._tasks)
