"""The send path of a broker without sockets, threads or a clock: frames go into a connection, and a transport keeps its writes.

With `fast` false the fast path is not registered, and every send takes the general path. With `leads` true the store is that of
a node which leads its DLedger group, and everything that is on disk is confirmed by the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec.structs import replace as replaced

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.delay.level_progress import DelayLevelProgress
from skyrocket.broker.delay.levels import DelayLevels
from skyrocket.broker.delay.timers import Timers
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.fast_path import SendFastPath
from skyrocket.broker.send.handler import SendHandler
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.checker import TransactionChecker
from skyrocket.broker.transactions.contributor import TransactionContributor
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.end_rules import EndRules
from skyrocket.net.connection import Connection
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.frame import FrameSplitter
from skyrocket.protocol.message.record import Record
from skyrocket.store.config import delay_levels_ms
from skyrocket.store.ledger.ledger_store import LedgerStore
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.broker_context import a_context
from tests.support.stores.ledgers import INDEX_FILE_BYTES
from tests.support.stores.simulated_disk import SimulatedDisk

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
    """A transport that keeps what is written. Its peer reads everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.7", 40_000), "sockname": ("127.0.0.1", 10911)})
        self._kept = bytearray()
        self.closed = False

    @property
    def written(self) -> bytes:
        return bytes(self._kept)

    def write(self, data: Any) -> None:
        self._kept += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def call_now(end: Callable[[], None]) -> None:
    """End each turn of the event loop with the read event that begins it."""
    end()


def connected(server: Server) -> tuple[Connection, KeptWrites]:
    transport = KeptWrites()
    connection = Connection(server)
    connection.connection_made(transport)
    return connection, transport


class SendParts:
    def __init__(
        self, *, fast: bool, sync_flush: bool = False, disk: SimulatedDisk | None = None, leads: bool = False, **changes: Any
    ) -> None:
        self.now_ms = BEGIN_MS
        self.disk = disk or SimulatedDisk()
        self.settings = replace(SMALL, sync_flush=sync_flush, **changes)
        self.store = self._open_store(leads)
        self.topics = TopicTable(lambda: self.settings, self._wall_ms)
        self.topics.put_all(
            [TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, perm=6) for name in ("orders", "%RETRY%shop")]
            + [TopicConfig(topic_name="closed", read_queue_nums=4, write_queue_nums=4, perm=4)]
        )
        self.appends = 0
        context = a_context(self.store, lambda: self.settings, self._wall_ms, on_appended=self._on_appended, topics=self.topics)
        self.contributors = context.contributors
        self.counters = context.counters
        self.internal_writer = context.internal_writer
        self.answers = context.answers
        self.validator = context.send_validator
        self.ends = self._ends(context)
        self._add_contributors()
        self.general = SendHandler(context)
        self.general.register(context.router)
        self.ends.register(context.router)
        self.fast_path = SendFastPath(context)
        if fast:
            self.fast_path.register(context.router)
        self.server = Server(context.router, now_ms=self._wall_ms, call_soon=call_now)
        self.connection, self.transport = connected(self.server)

    def _open_store(self, leads: bool) -> MessageStore:
        config = self.settings.store_config()
        store = (
            LedgerStore("store", config, node_id="n0", files=self.disk, index_file_bytes=INDEX_FILE_BYTES)
            if leads
            else MessageStore("store", config, files=self.disk)
        )
        store.open()
        if isinstance(store, LedgerStore):
            store.set_term(3)
        return store

    def confirm(self) -> None:
        """Flush, let the group confirm if there is one, and release parked answers."""
        self.store.flush()
        if isinstance(self.store, LedgerStore):
            self.store.commit(self.store.durable_index)
        self.answers.release()

    def _add_contributors(self) -> None:
        """Add the contributors of a broker. Nothing delivers what they redirect."""
        delays_ms = delay_levels_ms(self.settings.delay_levels)
        progress = DelayLevelProgress(lambda: self.store.horizon.flushed, self._wall_ms)
        schedule = DelayLevels(self.store, self.internal_writer, progress, delays_ms, wake=lambda: None)
        timers = Timers(lambda: self.settings, self._wall_ms, count_slot=lambda time_ms: 0 if time_ms % 7_000 else 2**31)
        for contributor in (TransactionContributor(lambda: self.settings, self.ends), timers, schedule, _RetryRedirect()):
            self.contributors.add(contributor)

    def _ends(self, context: BrokerContext) -> EndTransactionHandler:
        self.checks = TransactionChecker(context)
        self.rules = EndRules(self.checks, context.settings, context.store_host, wake=lambda: None)
        return EndTransactionHandler(self.store, self.internal_writer, self.rules, self._wall_ms, context.answers)

    def _wall_ms(self) -> int:
        return self.now_ms

    def _on_appended(self) -> None:
        self.appends += 1

    async def read_together(self, events: dict[Connection, bytes]) -> None:
        """Give several connections a read event each, in one turn of the event loop."""
        turn, self.server._turn._call_soon = self.server._turn, lambda end: None
        for connection, data in events.items():
            connection.data_received(data)
        turn._call_soon = call_now
        turn._end_scheduled()
        self.confirm()
        self.now_ms += 7

    async def read(self, data: bytes) -> None:
        """Give the connection a read event, then flush and release parked answers."""
        self.connection.data_received(data)
        self.confirm()
        await asyncio.sleep(0)  # the connection writes
        self.now_ms += 7

    def state(self) -> dict[str, Any]:
        """Return everything that is visible from outside."""
        put = self.counters.put
        return {
            "answers": sorted(FrameSplitter().feed(self.transport.written)),  # clients match answers by opaque, not by order
            "closed": self.transport.closed,
            "files": self.disk.contents(),
            "horizon": (self.store.horizon.appended, self.store.horizon.confirmed),
            "grown": sorted(self.store.take_grown()),
            "counted": (put.messages, put.size_bytes),
            "ended": self.checks.ops.waiting(),
            "topics": set(self.topics),
        }


class _RetryRedirect(Contributor):
    """Redirects every message to a retry topic."""

    topic_prefix = "%RETRY%"

    def redirect(self, header: Any, record: Record, properties: dict[str, str]) -> Record:
        properties["REAL_TOPIC"] = header.topic
        return replaced(record, topic="SCHEDULE_TOPIC_XXXX", queue_id=0)
