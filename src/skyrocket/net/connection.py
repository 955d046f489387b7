"""One connection, whoever opened it: frames in, commands out.

All frames of a read event are handed over together, and all answers to them leave with one write. Both sides may ask: a broker
asks its clients over the connection that they opened.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable
from typing import Any, Protocol, cast

from skyrocket.net.errors import DisconnectedError, OverloadedError, RequestTimeoutError
from skyrocket.net.limits import NetLimits
from skyrocket.net.pending import PendingRequests
from skyrocket.net.tls import HANDSHAKE, TlsLayer
from skyrocket.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Frame, FrameSplitter, MalformedFrameError

Sendable = bytes | Iterable[bytes | memoryview]

JOINED_BYTES_MAX = 64 * 1024  # more is sooner written piece by piece than copied
COLLECTED_BYTES_MAX = 128 * 1024  # more does not wait for the end of a read event: it would leave the processor's cache


class Owner(Protocol):
    """What a connection belongs to: a server, or a dialer."""

    limits: NetLimits
    tls: ssl.SSLContext | None  # for connections that come; those that go are made with theirs
    tls_only: bool  # plain ones are closed
    reads_always: bool  # also from a peer that does not read: two that both waited for the other to read would wait for ever

    def now_ms(self) -> int: ...

    def opened(self, connection: Connection) -> bool:
        """False: there are too many, it is closed."""

    def closed(self, connection: Connection, reason: str) -> None: ...

    def express(self, connection: Connection, frames: list[Frame]) -> int:
        """All frames of one read event, before commands are made of them. How many of the first are dealt with."""

    def requests(self, connection: Connection, commands: list[Command]) -> list[Command]:
        """All requests of one read event. Those that are left, since the connection `is_full`, are returned."""

    def may_hold(self, size_bytes: int) -> bool:
        """Whether this much more may wait here until a peer reads it."""


class Connection(asyncio.Protocol):
    """Created by its owner's loop; used in that loop only."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._limits = owner.limits
        self._splitter = FrameSplitter(owner.limits.frame_bytes_max)
        self._pending: PendingRequests[asyncio.Future[Any]] = PendingRequests(owner.limits.pending_requests_max)
        self._transport: asyncio.Transport | None = None
        self._tls: TlsLayer | None = None
        self._unsent: list[bytes | memoryview] = []
        self._unsent_bytes = 0
        self._left: list[Command] = []  # requests that wait until the peer has read some of its answers
        self._flush_scheduled = False
        self._reading = False  # inside data_received: answers collect, and leave together at its end
        self._closing: str | None = None  # why
        self._alarm: asyncio.TimerHandle | None = None  # at the first deadline of our requests
        self._alarm_ms = 0
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.opened_ms = self.heard_ms = self.spoke_ms = 0
        self.frame_since_ms: int | None = None  # when the unfinished frame began
        self.frames_read = 0

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)  # uvloop's has its methods, not its ancestors
        self._transport = transport
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=self._limits.unwritten_high_bytes)
        self.opened_ms = self.heard_ms = self.spoke_ms = self._owner.now_ms()
        if not self._owner.opened(self):
            self.close("there are too many connections")

    def data_received(self, data: bytes) -> None:
        if self._closing is not None:
            return
        self.heard_ms = self._owner.now_ms()
        if not self.frames_read and self._tls is None and data[0] == HANDSHAKE and self._owner.tls is not None:
            self._tls = TlsLayer(self._owner.tls)
        if self._owner.tls_only and self._tls is None:
            self.close("it does not speak TLS")
            return
        self._reading = True
        try:
            if self._tls is not None:
                data = self._decrypted(self._tls, data)
            if data:
                self._frames(data)
        finally:
            self._reading = False
        self._flush()

    def _decrypted(self, tls: TlsLayer, data: bytes) -> bytes:
        try:
            plain = tls.receive(data)
        except ssl.SSLError as error:
            self.close(f"TLS failed: {error.reason or error}")
            return b""
        self._write(tls.to_send())
        return plain

    def _frames(self, data: bytes) -> None:
        broken: str | None = None
        try:
            frames = self._splitter.feed(data)
        except MalformedFrameError as error:
            frames, broken = error.frames, str(error)
        if frames:
            self.frames_read += len(frames)
            self.frame_since_ms = None
            taken = 0 if self._left else self._owner.express(self, frames)
            if taken < len(frames):
                broken = self._commands(frames[taken:]) or broken
        if self._splitter.pending_bytes and self.frame_since_ms is None:
            self.frame_since_ms = self.heard_ms
        if broken is not None:
            self.close(broken)

    def _commands(self, frames: list[Frame]) -> str | None:
        requests: list[Command] = []
        broken: str | None = None
        for frame in frames:
            try:
                command = decode_command(frame)
            except FrameError as error:
                broken = str(error)
                break
            if command.flag & RESPONSE_FLAG:
                self.answered(command.opaque, command)
            else:
                requests.append(command)
        if requests:
            self._hand_over(requests)
        return broken

    def _hand_over(self, requests: list[Command]) -> None:
        """As many as there is room for their answers. A read event may bring hundreds, with megabytes to answer to each."""
        requests = self._left + requests
        while requests and self._closing is None:
            requests = self._owner.requests(self, requests)
            if requests:
                self._write_unsent()
                if self.unwritten_bytes > self._limits.unwritten_high_bytes:
                    break
        self._left = requests

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._closing or (f"{exc}" if exc else "the peer closed it")
        self._closing = reason
        self._transport = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for waiter in self._pending.clear():
            if not waiter.done():
                waiter.set_exception(DisconnectedError(f"The connection to {self.peer_text} ended: {reason}."))
        self._owner.closed(self, reason)

    def pause_writing(self) -> None:
        """The peer does not take its answers: read no more of its requests until it does."""
        if self._owner.reads_always:
            return
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._left:
            self._hand_over([])
            self._flush()
        if not self._left and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # --- our side

    @property
    def peer_text(self) -> str:
        host, port = self.peer
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def is_open(self) -> bool:
        return self._closing is None and self._transport is not None

    @property
    def unwritten_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        """It has enough to write for now: what answers requests can leave the rest for later."""
        return self._unsent_bytes + self.unwritten_bytes > self._limits.unwritten_high_bytes

    @property
    def held_bytes(self) -> int:
        """What waits here for the peer: answers that it has not read, and a frame that it has not finished."""
        return self.unwritten_bytes + self._splitter.pending_bytes

    def send(self, data: Sendable) -> None:
        """Bytes of whole frames. What is sent in one turn of the loop leaves with one write; after the end, nowhere."""
        if self._closing is not None:
            return
        if isinstance(data, bytes):
            self._unsent.append(data)
            self._unsent_bytes += len(data)
        else:
            pieces = data if isinstance(data, list) else list(data)
            self._unsent += pieces
            self._unsent_bytes += len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))
        if self._unsent_bytes > self._limits.unwritten_max_bytes:
            self.abort("more is sent to it at once than it could read")
        elif self._unsent_bytes > COLLECTED_BYTES_MAX:
            self._write_unsent()
        elif not self._reading and not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def send_command(self, command: Command) -> None:
        self.send(encode_command(command))

    def request(self, command: Command, timeout_ms: int | None = None) -> asyncio.Future[Command]:
        """Ask the peer. The future fails with a NetError when no response comes."""
        command.opaque = self._pending.next_opaque()
        deadline_ms = self._owner.now_ms() + (self._limits.request_ms if timeout_ms is None else timeout_ms)
        return self.request_frame(command.opaque, encode_command(command), deadline_ms)

    def next_opaque(self) -> int:
        return self._pending.next_opaque()

    def request_frame(self, opaque: int, frame: Sendable, deadline_ms: int) -> asyncio.Future[Any]:
        """The same for who writes the frame himself, with a number from `next_opaque`, and knows until when he will wait."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closing is not None or self._transport is None:
            future.set_exception(DisconnectedError(f"The connection to {self.peer_text} is closed."))
            return future
        if not self._pending.add(opaque, deadline_ms, future):
            future.set_exception(OverloadedError(f"{len(self._pending)} requests to {self.peer_text} wait for their response."))
            return future
        if self._alarm is None or deadline_ms < self._alarm_ms:
            self._set_alarm(loop, deadline_ms)
        self.send(frame)
        return future

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, deadline_ms: int) -> None:
        """One timer for all requests of this connection; most are answered long before it rings."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = deadline_ms
        self._alarm = loop.call_later((deadline_ms - self._owner.now_ms() + 1) / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._expire(self._owner.now_ms())
        next_ms = self._pending.next_deadline_ms()
        if next_ms is not None:
            self._set_alarm(asyncio.get_running_loop(), next_ms)

    def oneway(self, command: Command) -> None:
        command.flag |= ONEWAY_FLAG
        command.opaque = self._pending.next_opaque()
        self.send_command(command)

    def answered(self, opaque: int, answer: object) -> None:
        """Its future has this for its result: a command, or what an express handler made of the frame instead."""
        waiter = self._pending.answered(opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def check_time(self, now_ms: int) -> None:
        """Called every so often: end what takes too long."""
        self._expire(now_ms)
        limits = self._limits
        if not self.frames_read and now_ms - self.opened_ms > limits.first_frame_ms:
            self.close("it sent no whole frame")
        elif self.frame_since_ms is not None and now_ms - self.frame_since_ms > limits.frame_ms:
            self.close("it never finished a frame")
        elif now_ms - max(self.heard_ms, self.spoke_ms) > limits.idle_ms:
            self.close("it was idle")

    def _expire(self, now_ms: int) -> None:
        for waiter in self._pending.expired(now_ms):
            if not waiter.done():
                waiter.set_exception(RequestTimeoutError(f"{self.peer_text} did not answer in time."))

    def close(self, reason: str) -> None:
        """What was sent before still leaves."""
        if self._closing is None:
            self._write_unsent()
            self._closing = reason
            if self._transport is not None:
                self._transport.close()

    def abandon(self) -> None:
        """After a fork, in the child. The descriptor is not closed, since its socket would do that once more, but led nowhere;
        the parent's goes on."""
        self._closing = self._closing or "it belongs to another process"
        descriptor = self._transport.get_extra_info("socket") if self._transport is not None else None
        if descriptor is not None and descriptor.fileno() >= 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, descriptor.fileno(), inheritable=False)
            os.close(nowhere)

    def abort(self, reason: str) -> None:
        self._closing = self._closing or reason
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        self._flush_scheduled = False
        if not self._reading:
            self._write_unsent()

    def _write_unsent(self) -> None:
        if not self._unsent:
            return
        pieces, size_bytes = self._unsent, self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if size_bytes > JOINED_BYTES_MAX and self._tls is None and self._transport is not None:
            self._transport.writelines(pieces)
            self._wrote(self._transport, size_bytes)
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._tls is not None:
            self._tls.send(bytes(data))
            data = self._tls.to_send()
        self._write(data)

    def _write(self, data: bytes | memoryview) -> None:
        if not data or self._transport is None:
            return
        self._transport.write(data)
        self._wrote(self._transport, len(data))

    def _wrote(self, transport: asyncio.Transport, size_bytes: int) -> None:
        self.spoke_ms = self._owner.now_ms()
        waiting = transport.get_write_buffer_size()
        if waiting and (waiting > self._limits.unwritten_max_bytes or not self._owner.may_hold(min(waiting, size_bytes))):
            self.abort("it does not read its answers")


def _address(name: object) -> tuple[str, int]:
    """Of a socket; ("", 0) when it has none."""
    if isinstance(name, tuple) and len(name) >= 2:
        host: str = name[0]
        return host.removeprefix("::ffff:"), name[1]
    return "", 0
