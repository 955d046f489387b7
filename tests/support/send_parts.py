"""What sends go through in a broker, without sockets, threads or time: frames go into a connection, and what it writes is kept.

With `express` false the short way of ordinary sends is closed, and every send goes the general way.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replaced

from skyrocket.broker.delay.level_progress import DelayProgress
from skyrocket.broker.delay.levels import Schedule
from skyrocket.broker.delay.timers import TIMER_PROPERTIES, Timers
from skyrocket.broker.errors import ERROR_CODES
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.fast_path import OrdinarySends
from skyrocket.broker.send.handler import SendHandler
from skyrocket.broker.send.internal_writer import OwnMessages
from skyrocket.broker.send.redirects import Detours
from skyrocket.broker.send.validation import Intake
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.clients import ClientTable
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.checker import TransactionChecks
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.records import half_detour, half_short_cut
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.record import Record
from skyrocket.store.config import delay_levels_ms
from skyrocket.store.message_store import MessageStore
from tests.support.simulated_disk import SimulatedDisk

BEGIN_MS = 1_700_000_000_000
SMALL = BrokerSettings(
    port=10911,
    segment_bytes=40 * 1024,
    queue_file_bytes=2000,
    index_slots=16,
    index_entries=400,
    max_message_bytes=4000,
    auto_create_topic=True,
)


class KeptWrites(asyncio.Transport):
    """A socket whose peer reads everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 40_000), "sockname": ("127.0.0.1", 10911)})
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def connected(server: Server) -> tuple[Connection, KeptWrites]:
    transport = KeptWrites()
    connection = Connection(server)
    connection.connection_made(transport)
    return connection, transport


class SendParts:
    def __init__(self, *, express: bool, sync_flush: bool = False, disk: SimulatedDisk | None = None, **changes: Any) -> None:
        self.now_ms = BEGIN_MS
        self.disk = disk or SimulatedDisk()
        self.settings = replace(SMALL, sync_flush=sync_flush, **changes)
        self.store = MessageStore("store", self.settings.store_config(), files=self.disk)
        self.store.open()
        self.topics = TopicTable(lambda: self.settings, self._wall_ms)
        self.topics.put_all(
            [TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, perm=6) for name in ("orders", "%RETRY%shop")]
            + [TopicConfig(topic_name="closed", read_queue_nums=4, write_queue_nums=4, perm=4)]
        )
        self.detours = Detours()
        self.counters = Counters(self._wall_ms)
        self.own_messages = OwnMessages(self.store, self._wall_ms, self._appended, self.counters)
        self._add_detours()
        self.appends = 0
        router = Router(ERROR_CODES)
        host = pack_host("127.0.0.1", self.settings.port)
        self.intake = Intake(self.topics, lambda: self.settings, host, self.detours)
        shared = (lambda: self.settings, host, self._wall_ms, self._appended, self.counters)
        self.general = SendHandler(self.store, self.intake, *shared)
        self.general.register(router)
        self.ends = self._ends(host)
        self.ends.register(router)
        self.ordinary = OrdinarySends(self.store, self.topics, self.detours, *shared, self.general, self.ends)
        if express:
            self.ordinary.register(router)
        self.server = Server(router, now_ms=self._wall_ms)
        self.connection, self.transport = connected(self.server)

    def _add_detours(self) -> None:
        """As in a broker; only that nothing that waits is ever delivered."""
        delays_ms = delay_levels_ms(self.settings.delay_levels)
        progress = DelayProgress(lambda: self.store.horizon.flushed, self._wall_ms)
        schedule = Schedule(self.store, self.own_messages, progress, delays_ms, wake=lambda: None)
        timers = Timers(lambda: self.settings, self._wall_ms, crowd=lambda time_ms: 0 if time_ms % 7_000 else 2**31)
        current = lambda: self.settings  # noqa: E731 — a name for it, not a function
        self.detours.add(["TRAN_MSG"], half_detour(current), half_short_cut(current))
        self.detours.add(TIMER_PROPERTIES, timers.lead, timers.short_cut)
        self.detours.add(["DELAY"], schedule.lead, schedule.short_cut)
        self.detours.add_for_topics("%RETRY%", _elsewhere)

    def _ends(self, host: bytes) -> EndTransactionHandler:
        clients: ClientTable[Connection] = ClientTable()
        current = lambda: self.settings  # noqa: E731 — a name for it, not a function
        offsets = ConsumerOffsets(self._wall_ms)
        self.checks = TransactionChecks(self.store, self.own_messages, offsets, self.topics, clients, current, host, self.now_ms)
        return EndTransactionHandler(self.store, self.own_messages, self.checks, current, host, self._wall_ms, lambda: None)

    def _wall_ms(self) -> int:
        return self.now_ms

    def _appended(self) -> None:
        self.appends += 1

    async def read(self, data: bytes) -> None:
        """A read event; then the disk does its part."""
        self.connection.data_received(data)
        self.store.flush()
        self.general.confirmed()
        await asyncio.sleep(0)  # lets what was parked leave
        self.now_ms += 7

    def state(self) -> dict[str, Any]:
        """Everything that one can see from outside."""
        put = self.counters.put
        return {
            "answers": sorted(FrameSplitter().feed(self.transport.written)),  # their order says nothing: clients go by the number
            "closed": self.transport.closed,
            "files": self.disk.contents(),
            "horizon": (self.store.horizon.appended, self.store.horizon.confirmed),
            "grown": sorted(self.store.take_grown()),
            "counted": (put.messages, put.size_bytes),
            "ended": self.checks.ops.waiting(),
            "topics": set(self.topics),
        }


def _elsewhere(header: Any, record: Record, properties: dict[str, str]) -> Record:
    properties["REAL_TOPIC"] = header.topic
    return replaced(record, topic="SCHEDULE_TOPIC_XXXX", queue_id=0)
