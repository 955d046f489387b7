"""One connection, incoming or outgoing: frames in, commands out.

A read event splits its bytes into frames and tells the owner. The owner handles the frames at once, or together with those of
other connections at the end of the event loop's turn (`loop_turn`). All responses of a turn leave with one write. Both sides
may send requests: a broker sends requests to its clients over the connections that the clients opened.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from skyrocket.net.addresses import ClientAddress, socket_address
from skyrocket.net.descriptors import point_to_null_device
from skyrocket.net.errors import ConnectionLostError, RequestTimeoutError, TooManyRequestsError
from skyrocket.net.gathered_write import rest_of, write_pieces
from skyrocket.net.limits import NetLimits
from skyrocket.net.pending import PendingRequests
from skyrocket.net.quota import DEBT_SERVED_MS_MAX, QuotaRates
from skyrocket.net.tls import HANDSHAKE, TlsLayer
from skyrocket.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, decode_command, encode_command
from skyrocket.protocol.errors import FrameError
from skyrocket.protocol.frame import Frame, FrameSplitter, MalformedFrameError

Sendable = bytes | Iterable[bytes | memoryview]

GATHERED_BYTES_MIN = 16 * 1024  # below it, one copy is cheaper than writing piece by piece
FULL_READ_BYTES = 200_000  # uvloop reads up to 256,000 bytes and asyncio 262,144, and more wait when so many came
COLLECTED_BYTES_MAX = 128 * 1024  # above it, write before the read event ends, while the bytes are in the processor's cache

# Why nothing is read from a connection at present. It is read again when no reason is left.
_UNREAD_RESPONSES, _OVER_QUOTA, _TURN_IS_OVER, BY_OWNER = 1, 2, 4, 8


class ConnectionOwner(Protocol):
    """The owner of a connection: a server or a dialer."""

    limits: NetLimits
    tls: ssl.SSLContext | None  # for incoming connections
    tls_only: bool  # close plain connections
    quota: QuotaRates | None  # of a client; None: no limit
    vip_due_ms: int  # when to look for requests on the VIP port
    reads_always: bool  # read even from a peer that does not read: two peers that wait for each other would wait for ever

    def now_ms(self) -> int: ...

    def serve_vip(self) -> None:
        """Serve what has arrived on the VIP port meanwhile."""

    def accept(self, connection: Connection) -> bool:
        """Accept a new connection. Return False when there are too many: the connection closes."""

    def forget(self, connection: Connection, reason: str) -> None: ...

    def handle_vip(self, connection: Connection, size_bytes: int) -> None:
        """Handle what a read event of so many bytes has brought on the VIP port, now (`take_arrived`)."""

    def end_turn(self, connection: Connection) -> None:
        """Handle the frames of a connection that ends, if any wait for the end of the turn."""

    @property
    def handle_arrived(self) -> Callable[[Connection, int], None]:
        """Handles what a read event of so many bytes has brought, now or at the end of the turn (`take_arrived`)."""

    @property
    def flush_soon(self) -> Callable[[Connection], None]:
        """Calls the connection's `flush` at the end of the turn."""

    def requests(self, connection: Connection, commands: list[Command]) -> list[Command]:
        """Handle the requests of a read event. Return those that are left because the connection `must_stop`."""

    def hold(self, connection: Connection, size_bytes: int) -> None:
        """Take note that bytes wait until the peer reads them. This closes connections when too many wait."""


class Connection(asyncio.Protocol):
    """A connection. All calls happen in the event loop of its owner."""

    # Not a dictionary: there may be thousands of connections, and a turn looks at most attributes of each.
    __slots__ = (  # noqa: SIM905 — a line for each would be a page
        "_aborted _arrived _arrived_bytes _broken _charged_bytes _charged_frames _closing _closing_ms _deadline_ms "
        "_deadline_timer _flush_scheduled _flush_soon _handle_arrived _limits _now_ms _owner _pauses _pending _plain_descriptor "
        "_splitter _tls _transport _turn_ends_ms _unsent _unsent_bytes address bytes_written deferred frame_since_ms "
        "frames_read is_vip last_read_ms last_write_ms local opened_ms peer"
    ).split()

    def __init__(self, owner: ConnectionOwner, *, is_vip: bool = False) -> None:
        self._owner = owner
        self.is_vip = is_vip
        self._now_ms = owner.now_ms
        self._handle_arrived = owner.handle_vip if is_vip else owner.handle_arrived
        self._flush_soon = owner.flush_soon
        self._limits = owner.limits
        self._splitter = FrameSplitter(owner.limits.frame_bytes_max)
        self._pending: PendingRequests[asyncio.Future[Any]] = PendingRequests(owner.limits.pending_requests_max)
        self._transport: asyncio.Transport | None = None
        self._plain_descriptor: int | None = None  # of the socket; None when the transport encrypts
        self._tls: TlsLayer | None = None
        self._unsent: list[bytes | memoryview] = []
        self._unsent_bytes = 0
        self.deferred: list[Command] = []  # requests to handle once the peer has read some responses: no fast path overtakes them
        self._flush_scheduled = False
        self._pauses = 0  # the reasons why nothing is read
        self._turn_ends_ms = 0
        self._charged_frames = 0  # of frames_read, what was charged to the client's quota
        self._charged_bytes = 0  # likewise, of bytes_written
        self._arrived: list[Frame] = []  # frames that the owner has not taken yet
        self._arrived_bytes = 0  # read since the quota was charged
        self._broken: str | None = None  # why the bytes behind the last frame cannot be a frame
        self._closing: str | None = None  # the reason
        self._closing_ms = 0  # since when
        self._aborted = False
        self._deadline_timer: asyncio.TimerHandle | None = None  # due at the first deadline of our requests
        self._deadline_ms = 0
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.opened_ms = self.last_read_ms = self.last_write_ms = 0
        self.frame_since_ms: int | None = None  # when the first byte of the unfinished frame arrived
        self.frames_read = 0
        self.bytes_written = 0
        self.address: ClientAddress | None = None  # of the client; a server sets it

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's has the methods but not the base class
        self.peer = socket_address(transport.get_extra_info("peername"))
        self.local = socket_address(transport.get_extra_info("sockname"))
        self._plain_descriptor = None if transport.get_extra_info("sslcontext") is not None else self.descriptor
        transport.set_write_buffer_limits(high=self._limits.unwritten_high_bytes)
        self.opened_ms = self.last_read_ms = self.last_write_ms = self._owner.now_ms()
        if not self._owner.accept(self):
            self.close("there are too many connections")

    def data_received(self, data: bytes) -> None:
        if self._closing is not None:
            return
        owner, now_ms = self._owner, self._now_ms()
        if now_ms >= owner.vip_due_ms and not self.is_vip:
            owner.serve_vip()
            now_ms = self._now_ms()
        self.last_read_ms = now_ms
        size_bytes = len(data)
        self._arrived_bytes += size_bytes
        if self._tls is not None or (not self.frames_read and self._begins_tls(data)):
            data = self._decrypt(data)
        elif owner.tls_only:
            self.close("it does not speak TLS")
            return
        if data:
            try:
                frames = self._splitter.feed(data)
            except MalformedFrameError as error:
                frames, self._broken = error.frames, str(error)
            if frames:
                self.frames_read += len(frames)
                self.frame_since_ms = None
                self._arrived = self._arrived + frames if self._arrived else frames
            if self._splitter.pending and self.frame_since_ms is None:
                self.frame_since_ms = now_ms
            self._handle_arrived(self, size_bytes)
        if size_bytes >= FULL_READ_BYTES:
            self._end_turn()

    def _begins_tls(self, data: bytes) -> bool:
        """Whether the first bytes of the connection begin a TLS handshake. If so, it speaks TLS from now on."""
        if data[0] == HANDSHAKE and self._owner.tls is not None:
            self._tls, self._plain_descriptor = TlsLayer(self._owner.tls), None
        return self._tls is not None

    # --- called by the owner, for frames that arrived

    def take_arrived(self) -> list[Frame]:
        """Return the frames that arrived, once. `handle_frames` handles them; `finish_arrived` follows when all is written."""
        frames, self._arrived = self._arrived, []
        self._turn_ends_ms = self.last_read_ms + self._limits.turn_ms
        return frames

    def handle_frames(self, frames: list[Frame]) -> None:
        """Decode frames, and handle the requests and responses in them."""
        self._turn_ends_ms = self._owner.now_ms() + self._limits.turn_ms
        self._broken = self._process_commands(frames) or self._broken

    def finish_arrived(self) -> None:
        """Charge what was read, and close the connection when its bytes make no frame."""
        if self._owner.quota is not None:
            self._charge(self._owner.quota, self._arrived_bytes)
        self._arrived_bytes = 0
        if self._broken is not None:
            self.close(self._broken)

    def _end_turn(self) -> None:
        """Read nothing and handle nothing more until every other connection had its turn.

        uvloop would read up to 32 times before it looks at another connection.
        """
        if not self._pauses & _TURN_IS_OVER:
            self.pause(_TURN_IS_OVER)
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._pauses &= ~_TURN_IS_OVER
        if not self.is_vip and self._owner.now_ms() >= self._owner.vip_due_ms:
            self._owner.serve_vip()
        self._turn_ends_ms = self._owner.now_ms() + self._limits.turn_ms
        self._handle_deferred()

    def _charge(self, rates: QuotaRates, bytes_read: int) -> None:
        """Charge a read event, and what was written since the last one, to the client. Read no more until it is paid."""
        if self.address is None:
            return
        frames, self._charged_frames = self.frames_read - self._charged_frames, self.frames_read
        size_bytes, self._charged_bytes = bytes_read + self.bytes_written - self._charged_bytes, self.bytes_written
        debt_ms = self.address.quota.debt_ms(self.last_read_ms)
        if debt_ms <= DEBT_SERVED_MS_MAX:  # above it, the server refused the requests: that costs nothing but the wait
            debt_ms = self.address.quota.charge(rates, frames, size_bytes, self.last_read_ms)
        if debt_ms and not self._pauses & _OVER_QUOTA:
            self.pause(_OVER_QUOTA)
            asyncio.get_running_loop().call_later(min(debt_ms, DEBT_SERVED_MS_MAX) / 1000, self.resume, _OVER_QUOTA)

    def pause(self, reason: int) -> None:
        if not self._pauses and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._pauses |= reason

    def resume(self, reason: int) -> None:
        if reason & self._pauses & BY_OWNER:  # the time during which nobody read does not count
            self.last_read_ms = now_ms = self._now_ms()
            self.frame_since_ms = None if self.frame_since_ms is None else now_ms
        self._pauses &= ~reason
        if not self._pauses and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _decrypt(self, data: bytes) -> bytes:
        tls = self._tls
        assert tls is not None
        try:
            plain = tls.receive(data)
        except ssl.SSLError as error:
            self._write(tls.to_send())  # the alert that tells the peer why
            self.close(f"TLS failed: {error.reason or error}")
            return b""
        self._write(tls.to_send())
        return plain

    def _process_commands(self, frames: list[Frame]) -> str | None:
        requests: list[Command] = []
        broken: str | None = None
        for frame in frames:
            try:
                command = decode_command(frame)
            except FrameError as error:
                broken = str(error)
                break
            if command.flag & RESPONSE_FLAG:
                self.resolve(command.opaque, command)
            else:
                requests.append(command)
        if requests:
            self._hand_over(requests)
        return broken

    def _hand_over(self, requests: list[Command]) -> None:
        """Hand over as many requests as there is room for responses, and time in this turn. One read event may bring hundreds."""
        requests = self.deferred + requests
        while requests and self._closing is None:
            requests = self._owner.requests(self, requests)
            if requests:
                self._write_unsent()
                if self.unwritten_bytes > self._limits.unwritten_high_bytes:
                    break
                if self._owner.now_ms() >= self._turn_ends_ms:
                    self._end_turn()
                    break
        self.deferred = requests

    def _handle_deferred(self) -> None:
        """Go on with deferred requests, and read again when none is left and nothing else is in the way."""
        if self.deferred and self._closing is None:
            self._hand_over([])
            self.flush()
        if not self.deferred or self._owner.reads_always:
            self.resume(0)

    def eof_received(self) -> bool:
        self._owner.end_turn(self)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.end_turn(self)
        reason = self._closing or (f"{exc}" if exc else "the peer closed it")
        self._closing = reason
        self._transport = None
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        for waiter in self._pending.clear():
            if not waiter.done():
                waiter.set_exception(ConnectionLostError(f"The connection to {self.peer_text} ended: {reason}."))
        self._owner.forget(self, reason)

    def pause_writing(self) -> None:
        """Stop reading requests from a peer that does not read its responses."""
        if not self._owner.reads_always:
            self.pause(_UNREAD_RESPONSES)

    def resume_writing(self) -> None:
        self._pauses &= ~_UNREAD_RESPONSES
        if not self._pauses & _TURN_IS_OVER:
            self._handle_deferred()

    # --- called by the rest of skyrocket

    @property
    def peer_text(self) -> str:
        host, port = self.peer
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def is_open(self) -> bool:
        return self._closing is None and self._transport is not None

    @property
    def is_read(self) -> bool:
        """Whether requests of the peer are read at present."""
        return self.is_open and not self._pauses

    @property
    def descriptor(self) -> int | None:
        """The number of the socket's descriptor; None when there is no socket."""
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        return None if found is None else int(found.fileno())

    @property
    def unwritten_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_full(self) -> bool:
        """Whether enough bytes wait to be written. Handlers then leave further requests for later."""
        return self._unsent_bytes + self.unwritten_bytes > self._limits.unwritten_high_bytes

    @property
    def must_stop(self) -> bool:
        """Whether the rest of the requests waits: for the peer to read its responses, or for the connection's next turn."""
        return self.is_full or self._owner.now_ms() >= self._turn_ends_ms

    @property
    def held_bytes(self) -> int:
        """The bytes held for the peer: responses that it has not read, and a frame that it has not finished."""
        return 0 if self._aborted else self.unwritten_bytes + len(self._splitter.pending)

    def send(self, data: Sendable) -> None:
        """Send whole frames. Frames of one turn of the loop leave with one write. A closed connection drops them."""
        if self._closing is not None:
            return
        if isinstance(data, bytes):
            self._unsent.append(data)
            unsent_bytes = self._unsent_bytes + len(data)
        else:
            pieces = data if isinstance(data, list) else list(data)
            self._unsent += pieces
            unsent_bytes = self._unsent_bytes + (len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces)))
        self._unsent_bytes = unsent_bytes
        if unsent_bytes > self._limits.unwritten_max_bytes:
            self.abort("too many bytes were sent to it at once")
        elif unsent_bytes > COLLECTED_BYTES_MAX:
            self._write_unsent()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self._flush_soon(self)

    def send_now(self, data: bytes) -> None:
        """Like `send`, and write at once instead of at the end of the turn. For the last frames of a turn."""
        if self._closing is None:
            self._unsent.append(data)
            self._unsent_bytes += len(data)
            self.flush()

    def send_command(self, command: Command) -> None:
        self.send(encode_command(command))

    def request(self, command: Command, timeout_ms: int | None = None) -> asyncio.Future[Command]:
        """Send a request. The future fails with a NetError when no response arrives."""
        command.opaque = self._pending.next_opaque()
        deadline_ms = self._owner.now_ms() + (self._limits.request_ms if timeout_ms is None else timeout_ms)
        return self.request_frame(command.opaque, encode_command(command), deadline_ms)

    def next_opaque(self) -> int:
        return self._pending.next_opaque()

    def request_frame(self, opaque: int, frame: Sendable, deadline_ms: int) -> asyncio.Future[Any]:
        """Like `request`, for a caller that has already encoded the frame (with `next_opaque`) and has its own deadline."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closing is not None or self._transport is None:
            future.set_exception(ConnectionLostError(f"The connection to {self.peer_text} is closed."))
            return future
        if not self._pending.add(opaque, deadline_ms, future):
            sentence = f"{len(self._pending)} requests to {self.peer_text} already wait for a response."
            future.set_exception(TooManyRequestsError(sentence))
            return future
        if self._deadline_timer is None or deadline_ms < self._deadline_ms:
            self._set_deadline_timer(loop, deadline_ms)
        self.send(frame)
        return future

    def _set_deadline_timer(self, loop: asyncio.AbstractEventLoop, deadline_ms: int) -> None:
        """Set the one timer for all requests of this connection. Most responses arrive long before it is due."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline_ms = deadline_ms
        self._deadline_timer = loop.call_later((deadline_ms - self._owner.now_ms() + 1) / 1000, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline_timer = None
        self._expire(self._owner.now_ms())
        next_ms = self._pending.next_deadline_ms()
        if next_ms is not None:
            self._set_deadline_timer(asyncio.get_running_loop(), next_ms)

    def oneway(self, command: Command) -> None:
        command.flag |= ONEWAY_FLAG
        command.opaque = self._pending.next_opaque()
        self.send_command(command)

    def resolve(self, opaque: int, answer: object) -> None:
        """Complete a request of ours with a command, or with what a fast-path handler made of the frame."""
        waiter = self._pending.pop(opaque)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def check_time(self, now_ms: int) -> None:
        """Enforce the time-outs. The owner calls this every `scan_ms`. What it leaves unread may have come in time."""
        limits = self._limits
        if len(self._pending):
            self._expire(now_ms)
        is_in_use = self.frames_read and self.frame_since_ms is None and now_ms - self.last_read_ms <= limits.idle_ms
        if (is_in_use or self._pauses & BY_OWNER) and self._closing is None:  # nearly always, and there may be thousands
            return
        if self._closing is not None:
            if now_ms - self._closing_ms > limits.drain_ms:  # the peer does not read what it was still to get
                self.abort(self._closing)
        elif not self.frames_read and now_ms - self.opened_ms > limits.first_frame_ms:
            self.close("it sent no whole frame in time")
        elif self.frame_since_ms is not None and now_ms - self.frame_since_ms > limits.frame_ms:
            self.close("it did not finish a frame in time")
        elif now_ms - max(self.last_read_ms, self.last_write_ms) > limits.idle_ms:
            self.close("it was idle for too long")

    def _expire(self, now_ms: int) -> None:
        for waiter in self._pending.pop_expired(now_ms):
            if not waiter.done():
                waiter.set_exception(RequestTimeoutError(f"{self.peer_text} did not answer in time."))

    def close(self, reason: str) -> None:
        """Close the connection. Bytes that were sent before still leave."""
        if self._closing is None:
            self._write_unsent()
            self._closing = reason
            self._closing_ms = self._owner.now_ms()
            if self._transport is not None:
                self._transport.close()

    def abandon(self) -> None:
        """Drop the connection in a forked child, without a word to the peer. The parent's connection is not affected."""
        self._closing = self._closing or "it belongs to the parent process"
        descriptor = self.descriptor
        if descriptor is not None and descriptor >= 0:
            point_to_null_device(descriptor)  # its socket object closes it later, and must not close a reused one

    def abort(self, reason: str) -> None:
        self._closing = self._closing or reason
        self._aborted = True
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._transport is not None:
            self._transport.abort()

    def flush(self) -> None:
        """Write what was sent.

        The answer to a client that waits for it goes to the socket at once. A transport would keep it until the end of the
        loop's round, and count it as held for a client that does not read.
        """
        self._flush_scheduled = False
        pieces, descriptor, transport = self._unsent, self._plain_descriptor, self._transport
        if len(pieces) == 1 and descriptor is not None and transport is not None:
            piece = pieces[0]
            if type(piece) is bytes and not transport.get_write_buffer_size() and not transport.is_closing():
                try:
                    written = os.write(descriptor, piece)
                except OSError:
                    written = 0  # the transport meets the error again
                self.bytes_written += written
                if written == self._unsent_bytes:
                    pieces.clear()
                    self._unsent_bytes = 0
                    self.last_write_ms = self._now_ms()
                    return
                pieces[0] = memoryview(piece)[written:]
                self._unsent_bytes -= written
        if pieces:
            self._write_unsent()

    def _write_unsent(self) -> None:
        if not self._unsent:
            return
        pieces, size_bytes = self._unsent, self._unsent_bytes
        self._unsent, self._unsent_bytes = [], 0
        if size_bytes >= GATHERED_BYTES_MIN and self._tls is None and self._transport is not None:
            rest = self._write_gathered(self._transport, pieces)
            if rest:
                self._transport.writelines(rest)
            self._count_written(self._transport, size_bytes)
            return
        data = b"".join(pieces)
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.to_send()
        self._write(data)

    def _write_gathered(self, transport: asyncio.Transport, pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Write what the socket takes at once, unless bytes before these wait. Return the rest.

        A transport that closes may have closed its descriptor, and another socket may have its number.
        """
        if self._plain_descriptor is None or transport.get_write_buffer_size() or transport.is_closing():
            return pieces
        written = write_pieces(self._plain_descriptor, pieces)
        return rest_of(pieces, written) if written else pieces

    def _write(self, data: bytes | memoryview) -> None:
        transport = self._transport
        if not data or transport is None:
            return
        transport.write(data)
        self._count_written(transport, len(data))

    def _count_written(self, transport: asyncio.Transport, size_bytes: int) -> None:
        self.last_write_ms = self._now_ms()
        self.bytes_written += size_bytes
        waiting = transport.get_write_buffer_size()
        if waiting > self._limits.unwritten_max_bytes:
            self.abort("it does not read its responses")
        elif waiting:
            self._owner.hold(self, min(waiting, size_bytes))
