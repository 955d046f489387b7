"""The HA port of a master: it feeds its slaves with the log, and hears what they have.

    append ─► on_appended ─► each slave whose socket takes it gets the new bytes, in the same turn of the event loop
    report ─► on_acknowledged ─► the store's horizon moves ─► answers, queues, long polls

What `MasterLink` decides is carried out here. A slave whose socket is full gets nothing more until it has read, and nothing is
read from the disk for it meanwhile. Bytes that this process wrote recently come from memory; older ones are read in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, cast

from skyrocket.broker.errors import ReplicationError, UnknownSlaveError
from skyrocket.broker.replication.ha_opening import (
    OPENING,
    Compared,
    ComparedRecords,
    MasterIdentity,
    MasterOpening,
    encode_message,
)
from skyrocket.broker.replication.master_link import LogBounds, MasterLink
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.errors import NetError
from skyrocket.net.outside_log import OutsideLog
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore
from skyrocket.store.replica.log_reader import LogReader

log = logging.getLogger(__name__)
outside = OutsideLog(log)

SLAVES_MAX: Final = 32  # connections at a time
UNSENT_BYTES_MAX: Final = 1024 * 1024  # of one slave, before the master waits for it
COLD_BYTES: Final = 256 * 1024  # read from the disk at once
WRITE_BYTES: Final = 256 * 1024  # joined for one call


class SlaveProgress(NamedTuple):
    """How far one slave is."""

    address: str
    acknowledged: int
    next_offset: int


class HaServer:
    def __init__(
        self,
        store: MessageStore,
        reader: LogReader,
        settings: Callable[[], BrokerSettings],
        now_ms: Callable[[], int],
        on_acknowledged: Callable[[], None],
        secret: bytes = b"",
        on_refused: Callable[[str, str], None] = lambda _peer, _why: None,
    ) -> None:
        """`on_acknowledged` is called when a slave has more than before, and when one comes or goes.

        With a `secret`, only slaves that know it are served. Apache's do not. `on_refused` is called with the address of another
        one, and why.
        """
        self.secret = secret
        self.on_refused = on_refused
        self.store = store
        self.reader = reader
        self.settings = settings
        self.now_ms = now_ms
        self.on_acknowledged = on_acknowledged
        self.threads = ThreadPoolExecutor(2, thread_name_prefix="skyrocket-ha")
        self.slaves: set[SlaveConnection] = set()
        self._listening: asyncio.Server | None = None

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start to accept slaves. Return the port: for port 0 the system chooses one."""
        try:
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_server(lambda: SlaveConnection(self), host, port, backlog=SLAVES_MAX, ssl=tls)
        except OSError as error:
            raise NetError(
                f"Cannot listen on {host}:{port} for slaves: {error.strerror or error}. Set haListenPort to a free port; "
                f"without it, it is listenPort + 1."
            ) from error
        chosen: int = self._listening.sockets[0].getsockname()[1]
        return chosen

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.close()
        for slave in list(self.slaves):
            slave.abort()
        if self._listening is not None:
            await self._listening.wait_closed()
        self.threads.shutdown()

    def bounds(self) -> LogBounds:
        messages = self.store.log
        return LogBounds(messages.start, messages.end, messages.segments.segment_bytes)

    def identity(self) -> MasterIdentity:
        settings = self.settings()
        return MasterIdentity(settings.cluster_name, settings.broker_name, settings.segment_bytes, self.secret)

    def on_appended(self) -> None:
        """Send what was appended to every slave that is ready for it."""
        for slave in list(self.slaves):
            slave.pump()

    def check_time(self, now_ms: int) -> None:
        for slave in list(self.slaves):
            slave.check_time(now_ms)

    def acknowledged(self) -> list[int]:
        """Return how far each connected slave is."""
        return [slave.link.acknowledged for slave in self.slaves if slave.link.is_streaming]

    def progress(self) -> list[SlaveProgress]:
        return [
            SlaveProgress(slave.peer, slave.link.acknowledged, slave.link.next_offset)
            for slave in self.slaves
            if slave.link.next_offset is not None
        ]


class SlaveConnection(asyncio.Protocol):
    def __init__(self, server: HaServer) -> None:
        self._server = server
        self.link = MasterLink(server.now_ms())
        self.peer = "unknown"
        self._transport: asyncio.Transport | None = None
        self._opening: MasterOpening | None = None  # of our own slaves
        self._first = b""  # what came before it is known whose slave it is
        self._is_full = False  # the socket takes nothing more for now
        self._is_reading = False  # a thread reads from the disk for this slave

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        self.peer = f"{host}:{port}"
        if len(self._server.slaves) >= SLAVES_MAX:
            outside.warning("Slave %s is refused: %d are connected already.", self.peer, SLAVES_MAX)
            self.abort()
            return
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._server.slaves.add(self)

    def data_received(self, data: bytes) -> None:
        was_streaming, before = self.link.is_streaming, self.link.acknowledged
        try:
            if not was_streaming:
                data = self._open(data)
            if data:
                self.link.receive(data, self._server.bounds(), self._server.now_ms())
        except (ReplicationError, StoreError) as error:
            self._close(error)
            return
        if not was_streaming and self.link.is_streaming:
            log.info("Slave %s is connected, and gets the log from %d on.", self.peer, self.link.next_offset)
        self.pump()
        if not was_streaming or self.link.acknowledged != before:
            self._server.on_acknowledged()

    def _open(self, data: bytes) -> bytes:
        """Take what comes before the first report. Return the bytes of reports."""
        if self._opening is None:
            self._first += data
            if len(self._first) < len(OPENING):
                return b""
            data, self._first = self._first, b""
            if not data.startswith(OPENING):
                if self._server.secret:
                    raise UnknownSlaveError("it does not know the secret of haSecretPath. Slaves of Apache's cannot")
                return data
            data = data[len(OPENING) :]
            self._opening = MasterOpening(self._server.identity(), secrets.token_hex(16))
        self.link.note_heard(self._server.now_ms())
        for answer in self._opening.receive(data, self._server.bounds()):
            if isinstance(answer, ComparedRecords):
                self._compare(answer)
            else:
                self._write(answer)
        if self._opening.begin is None:
            return b""
        self.peer = f"{self._opening.slave} at {self.peer}"
        self.link.start_at(self._opening.begin, self._server.bounds())
        return self._opening.rest

    def _compare(self, question: ComparedRecords) -> None:
        """Compare records of the slave with those of this log, in a thread."""
        if self._is_reading:
            raise ReplicationError("it asked again before it was answered")
        self._is_reading = True
        job = self._server.reader.checksum_job(question.spans)
        done = asyncio.get_running_loop().run_in_executor(self._server.threads, job)
        done.add_done_callback(lambda future: self._finish_compare(question, future))

    def _finish_compare(self, question: ComparedRecords, done: asyncio.Future[list[int | None]]) -> None:
        self._is_reading = False
        if self._transport is None or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._close(error)
            return
        are_equal = [ours == theirs for ours, theirs in zip(done.result(), question.checksums, strict=True)]
        self._write(encode_message(Compared(are_equal)))

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self in self._server.slaves:
            self._server.slaves.discard(self)
            if self.link.is_streaming:
                log.warning("Slave %s is gone%s.", self.peer, f": {exc}" if exc else "")
            self._server.on_acknowledged()

    # --- sending

    def pump(self) -> None:
        """Send what the slave does not have, until its socket is full or the rest has to be read from the disk."""
        parts: list[bytes] = []
        size_bytes = 0
        while self._is_open and not self._is_full and not self._is_reading:
            try:
                offset, size = self.link.next_range(self._server.bounds(), self._server.settings().ha_transfer_bytes)
            except ReplicationError as error:
                self._close(error)
                return
            body = self._server.reader.read_now(offset, size) if size else b""
            if body is None:
                self._read(offset)
                break
            if body:
                parts.append(self.link.send(offset, body, self._server.now_ms()))
                size_bytes += size
            if parts and (not body or size_bytes >= WRITE_BYTES):
                self._write(b"".join(parts))
                parts, size_bytes = [], 0
            if not body:
                return
        if parts:
            self._write(b"".join(parts))

    @property
    def _is_open(self) -> bool:
        """False as soon as the connection is lost: uvloop's would raise an error when it is written to."""
        return self._transport is not None and not self._transport.is_closing()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and self._is_open:
            self._transport.write(data)

    def _read(self, offset: int) -> None:
        """Read from the disk in a thread, and go on when it is done."""
        _, size = self.link.next_range(self._server.bounds(), COLD_BYTES)
        try:
            job = self._server.reader.read_job(offset, size)
        except StoreError as error:
            self._close(error)
            return
        self._is_reading = True
        done = asyncio.get_running_loop().run_in_executor(self._server.threads, job)
        done.add_done_callback(lambda future: self._finish_read(offset, future))

    def _finish_read(self, offset: int, done: asyncio.Future[bytes]) -> None:
        self._is_reading = False
        if self._transport is None or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._close(error)
            return
        data, now_ms = done.result(), self._server.now_ms()
        batch = self._server.settings().ha_transfer_bytes
        pieces = [(at, data[at : at + batch]) for at in range(0, len(data), batch)]
        self._write(b"".join([self.link.send(offset + at, piece, now_ms) for at, piece in pieces]))
        self.pump()

    def check_time(self, now_ms: int) -> None:
        settings = self._server.settings()
        try:
            heartbeat = self.link.check_time(now_ms, settings.ha_heartbeat_ms, settings.ha_silence_ms)
        except ReplicationError as error:
            self._close(error)
            return
        if heartbeat and not self._is_full:
            self._write(heartbeat)

    def _close(self, reason: BaseException) -> None:
        if isinstance(reason, UnknownSlaveError):
            self._server.on_refused(self.peer, str(reason))
        outside.warning("The connection of slave %s is closed: %s.", self.peer, str(reason).rstrip("."))
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
