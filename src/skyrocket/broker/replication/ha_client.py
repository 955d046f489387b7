"""A slave's side of replication: it finds the point from which it copies its master's log, and copies.

    set_master(address) ─► ask the master about its log ─► cut what the master does not have ─► dial the HA port
                                                                                                      │
                 ┌────────────────────── a pause, after any failure ◄──── records, appended and acknowledged ◄┘

A record is acknowledged once the store's horizon has passed it: with SYNC_FLUSH, when it is on disk here.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from skyrocket.broker.errors import ReplicationError
from skyrocket.broker.replication.ha_opening import MasterIdentity
from skyrocket.broker.replication.log_comparison import LogComparison, RecordProbe
from skyrocket.broker.replication.master_probe import MasterInfo, MasterProbe
from skyrocket.broker.replication.slave_link import SlaveLink, StartAt
from skyrocket.broker.replication.slave_opening import SlaveOpening, write_to_master
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.dialer import Dialer
from skyrocket.net.outside_log import OutsideLog
from skyrocket.store.errors import StoreError
from skyrocket.store.flusher import Flusher
from skyrocket.store.message_store import MessageStore
from skyrocket.store.replica.log_reader import LogReader
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)
outside = OutsideLog(log)

RETRY_S: Final = 1.0  # between two attempts; Apache's slave waits 5 s
CONNECT_S: Final = 5.0
READ_BYTES: Final = 128 * 1024  # appended in one turn of the event loop
TICK_S: Final = 0.5  # between two looks at the time
ASKED_MAX: Final = 5  # questions to a master that does not answer, before it is copied from all the same
SENTENCES_MAX: Final = 100  # logged between two times that it works


class HaClient:
    def __init__(
        self,
        store: MessageStore,
        flusher: Flusher,
        reader: LogReader,
        settings: Callable[[], BrokerSettings],
        dialer: Dialer,
        now_ms: Callable[[], int],
        on_appended: Callable[[], None],
        secret: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`on_appended` is called after each append: it wakes the flusher and waiting pulls."""
        self._secret = secret
        self._tls = tls
        self._store = store
        self._flusher = flusher
        self._reader = reader
        self._settings = settings
        self._dialer = dialer
        self._now_ms = now_ms
        self._on_appended = on_appended
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-ha")
        self._ha_address = ""
        self._broker_address = ""
        self._changed = asyncio.Event()
        self._link: SlaveLink | None = None  # while it streams
        self._writer: asyncio.StreamWriter | None = None
        self._task: SupervisedTask | None = None
        self._said: set[str] = set()  # what was logged since it last worked: a master that stays away fills no log
        self._unanswered = 0  # questions in a row that the master has not answered
        self.received_ms = 0  # when the master was last heard of

    def start(self) -> None:
        """Begin to copy, as soon as the master's address is known."""
        address = self._settings().ha_master_address
        if address:
            self.set_master(address)
        self._task = SupervisedTask("replication from the master", self._run)

    async def close(self) -> None:
        if self._task is not None:
            await self._task.close()
        self._thread.shutdown()

    @property
    def master_address(self) -> str:
        """The HA address that the slave copies from; empty while it knows none."""
        return self._ha_address

    @property
    def is_connected(self) -> bool:
        return self._link is not None

    def set_master(self, ha_address: str, broker_address: str = "") -> None:
        """Copy from the master with this HA address. A `haMasterAddress` of the settings stays.

        `broker_address` is the master's ordinary address. Without it, the port before its HA port is asked: the default.
        """
        ha_address = self._settings().ha_master_address.partition(";")[0] or ha_address
        if not ha_address:
            return
        if not ha_address.rpartition(":")[2].isdecimal():
            outside.warning("The master's HA address %s has no port. This slave does not use it.", ha_address)
            return
        known = self._broker_address if ha_address == self._ha_address else ""
        broker_address = broker_address or known or _port_before(ha_address)
        if (ha_address, broker_address) != (self._ha_address, self._broker_address):
            self._ha_address, self._broker_address = ha_address, broker_address
            self._changed.set()
            if self._writer is not None:
                self._writer.close()  # the next attempt goes to the new address

    def on_confirmed(self) -> None:
        """The horizon has moved: tell the master."""
        if self._link is not None and self._writer is not None and not self._writer.is_closing():
            report = self._link.report(self._store.horizon.confirmed, self._now_ms())
            if report:
                self._writer.write(report)

    # --- copying

    async def _run(self) -> None:
        while True:
            while not self._ha_address:
                await self._changed.wait()
                self._changed.clear()
            try:
                await self._follow()
            except (ReplicationError, StoreError, OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self._say(f"This slave does not copy from {self._ha_address} now: {str(error) or type(error).__name__}")
            finally:
                self._link = None
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None
            await asyncio.sleep(RETRY_S)

    def _say(self, sentence: str) -> None:
        if sentence not in self._said and len(self._said) < SENTENCES_MAX:
            log.warning(sentence)
            self._said.add(sentence)

    async def _follow(self) -> None:
        probe = MasterProbe(self._dialer, self._broker_address)
        info = await self._ask(probe)
        if self._is_ours(info):
            reader, writer = await self._connect()
            link = await self._begin(reader, writer)
        else:
            position, start = await self._find_start(probe, info)
            reader, writer = await self._connect()
            link = SlaveLink(position, self._store.config.segment_bytes, self._now_ms(), start)
            write_to_master(writer, link.first_report())
        self._link = link
        position = link.position
        log.info("This slave copies the log of %s from %d on.", self._ha_address, position)
        self._said.clear()
        while True:
            data = await self._read(reader)
            now_ms = self._now_ms()
            if data:
                self.received_ms = now_ms
                self._append(link, data, now_ms)
                await asyncio.sleep(0)  # consumers have their turn, however much the master has sent
            settings = self._settings()
            write_to_master(writer, link.check_time(now_ms, settings.ha_heartbeat_ms, settings.ha_silence_ms))

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """Return what the master has sent; nothing when it is time to look at the clock."""
        try:
            async with asyncio.timeout(TICK_S):
                data = await reader.read(READ_BYTES)
        except TimeoutError:
            return b""
        if not data:
            raise ReplicationError("The master has closed the connection.")
        return data

    def _append(self, link: SlaveLink, data: bytes, now_ms: int) -> None:
        runs = link.receive(data, now_ms)
        replica, messages = self._store.replica, self._store.log
        for run in runs:
            if run.start != messages.end and messages.end == messages.start:
                log.info("The log of this slave starts at %d.", run.start)
                replica.begin_at(run.start)
            replica.append(run)
        if runs:
            self._on_appended()
            self.on_confirmed()

    # --- where to start

    async def _ask(self, probe: MasterProbe) -> MasterInfo | None:
        """Ask the master about its log; None when it does not answer on its ordinary port for a while.

        A master that is just starting answers soon. Only one whose port is not known is copied from without a comparison.
        """
        try:
            info = await probe.info()
        except ReplicationError as error:
            self._unanswered += 1
            if self._unanswered < ASKED_MAX:
                raise
            self._say(f"{error} So this slave does not know where the master's log starts, nor whether the logs are equal.")
            return None
        self._unanswered = 0
        return info

    def _is_ours(self, info: MasterInfo | None) -> bool:
        if not self._secret:
            return info is not None and info.is_ours
        if info is not None and not info.is_ours:
            raise ReplicationError(f"{self._broker_address} is not known to be a skyrocket master, and haSecretPath needs one.")
        return True

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self._ha_address.rpartition(":")
        host = host.strip("[]")
        name = host if self._tls is not None else None
        async with asyncio.timeout(CONNECT_S):
            reader, self._writer = await asyncio.open_connection(
                host, int(port), limit=READ_BYTES, ssl=self._tls, server_hostname=name
            )
        return reader, self._writer

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> SlaveLink:
        """Agree with our master on where to begin."""
        settings, messages = self._settings(), self._store.log
        segment_bytes = self._store.config.segment_bytes
        identity = MasterIdentity(settings.cluster_name, settings.broker_name, segment_bytes, self._secret)
        opening = SlaveOpening(reader, writer, identity)
        welcome = await opening.greet(settings.broker_id, secrets.token_hex(16))
        if messages.end > messages.start:
            await self._cut(opening, MasterInfo(welcome.log_start, welcome.log_end, is_ours=True))
        position = messages.end if messages.end > messages.start else welcome.log_start
        opening.begin(position)
        return SlaveLink(position, segment_bytes, self._now_ms())

    async def _find_start(self, probe: MasterProbe, info: MasterInfo | None) -> tuple[int, StartAt]:
        """Return where Apache's master shall begin. Cut what it does not have."""
        messages = self._store.log
        if messages.end > messages.start:
            if info is not None:
                await self._cut(probe, info)
            if messages.end > messages.start:
                return messages.end, StartAt.POSITION
        if info is None:
            return 0, StartAt.ANYWHERE
        return self._find_first(info)

    def _find_first(self, info: MasterInfo) -> tuple[int, StartAt]:
        """Return where an empty log starts: at the master's first file."""
        if info.start > 0:
            return info.start, StartAt.POSITION
        if info.end <= self._store.config.segment_bytes:
            return 0, StartAt.ANYWHERE
        return 0, StartAt.SECOND_BYTE

    async def _cut(self, probe: RecordProbe, info: MasterInfo) -> None:
        """Give up what the master does not have, and keep it aside."""
        messages = self._store.log
        if info.is_empty:
            raise ReplicationError(
                f"The master {self._broker_address} has no messages, and this slave has those from {messages.start} to "
                f"{messages.end}. Make this broker the master, or empty its store."
            )
        offset = await LogComparison(self._reader, self._thread, messages, probe).find_common_end(info.start)
        if offset == messages.end:
            return
        offset = max(messages.start, offset)
        job = self._store.replica.begin_cut(offset)
        log.error(
            "This slave's log differs from that of its master %s from %d on: %d bytes are cut off, and are kept in %s.",
            self._broker_address, offset, job.size, job.kept_in,
        )  # fmt: skip
        await asyncio.get_running_loop().run_in_executor(self._thread, job.run)
        await self._flusher.run_alone(lambda: self._store.replica.finish_cut(job))


def _port_before(ha_address: str) -> str:
    host, _, port = ha_address.rpartition(":")
    return f"{host}:{int(port) - 1}"
