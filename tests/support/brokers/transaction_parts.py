"""The transactions of a broker over a simulated disk, with a clock that the test sets and a producer that the test controls.

`restart_after_kill` and `restart_after_power_cut` return the next broker: it starts from what the disk kept, and from the last
saved offsets.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from skyrocket.broker.errors import ERROR_CODES
from skyrocket.broker.load.counters import Counters
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.clients import ClientTable, GroupMember
from skyrocket.broker.tables.consumer_offsets import ConsumerOffsets
from skyrocket.broker.tables.topics import TopicTable
from skyrocket.broker.transactions.checker import TransactionChecker
from skyrocket.broker.transactions.contributor import TransactionContributor
from skyrocket.broker.transactions.end_handler import EndTransactionHandler
from skyrocket.broker.transactions.end_rules import EndRules
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.command import ONEWAY_FLAG, Command
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.language import Language
from skyrocket.protocol.message.properties import PRODUCER_GROUP, TRANSACTION_PREPARED, UNIQUE_KEY, encode_properties
from skyrocket.protocol.message.record import Record, decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED as PREPARED
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC, TRANSACTION_GROUP
from skyrocket.store.config_files import CONSUMER_OFFSETS, ConfigFiles
from skyrocket.store.message import AppendResult
from skyrocket.store.message_store import MessageStore
from tests.support.brokers.broker_context import a_context
from tests.support.brokers.running_broker import send_header
from tests.support.stores.simulated_disk import SimulatedDisk
from tests.support.stores.store_messages import ROOT, SMALL, START_MS
from tests.unit.broker.parts import Peer

HOST = pack_host("10.0.0.1", 10_911)
TOPIC, GROUP = "orders", "shop"
TURNS_MAX = 10_000  # of the checks, at one time


class Producer(Peer):
    is_open = True


class Transacting:
    def __init__(self, disk: SimulatedDisk | None = None, *, now_ms: int = START_MS, **settings: Any) -> None:
        self._given = settings
        self.settings_now = replace(BrokerSettings(broker_name="broker-a"), **settings)
        self.disk = disk or SimulatedDisk()
        self.now_ms = now_ms
        segment_bytes = settings.get("segment_bytes", SMALL.segment_bytes)
        config = replace(SMALL, sync_flush=self.settings_now.sync_flush, segment_bytes=segment_bytes)
        self.store = MessageStore(ROOT, config, files=self.disk)
        self.store.open()
        self._files = ConfigFiles(self.disk, f"{ROOT}/config")
        self.offsets = ConsumerOffsets(self.wall)
        if (saved := self._files.load(CONSUMER_OFFSETS).body) is not None:
            self.offsets.load(saved)
        self.topics = TopicTable(self.settings, self.wall)
        self.clients: ClientTable[Connection] = ClientTable()
        self.producer = Producer()
        self.router = Router(ERROR_CODES)
        self.wakes = 0
        self.internal_writer = InternalWriter(self.store, self.wall, lambda: None, Counters(self.wall))
        context = a_context(
            self.store,
            self.settings,
            self.wall,
            store_host=HOST,
            internal_writer=self.internal_writer,
            offsets=self.offsets,
            topics=self.topics,
            clients=self.clients,
            router=self.router,
        )
        self.answers = context.answers
        self.checks = TransactionChecker(context)
        rules = EndRules(self.checks, self.settings, HOST, self._wake)
        self.ends = EndTransactionHandler(self.store, self.internal_writer, rules, self.wall, context.answers)
        self.ends.register(self.router)
        self._contributor = TransactionContributor(self.settings, self.ends)

    def settings(self) -> BrokerSettings:
        return self.settings_now

    def wall(self) -> int:
        return self.now_ms

    def _wake(self) -> None:
        self.wakes += 1

    # --- producers

    def join(self, group: str = GROUP, producer: Producer | None = None) -> Producer:
        producer = producer or self.producer
        member = GroupMember(producer.connection, f"client-{id(producer)}", Language.JAVA, 1)
        self.clients.register_producer(group, member, self.now_ms)
        return producer

    def half(
        self, name: str, group: str = GROUP, queue_id: int = 0, born_ms: int | None = None, **properties: str
    ) -> AppendResult:
        """Store a half message now."""
        named = {UNIQUE_KEY: name, TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group, **properties}
        born_ms = self.now_ms if born_ms is None else born_ms
        record = Record(
            TOPIC,
            name.encode(),
            queue_id=queue_id,
            flag=7,
            sys_flag=PREPARED,
            born_timestamp=born_ms,
            born_host=HOST,
            store_host=HOST,
        )
        half = self._contributor.redirect(send_header(TOPIC, queue_id, named), record, named)
        assert half is not None
        half.properties = encode_properties(named)
        (placed,) = self.internal_writer.write([half])
        return placed

    def end(
        self, half: AppendResult, outcome: int, *, oneway: bool = False, flushes: bool = False, **given: Any
    ) -> Command | None:
        """Send an end of the transaction. Return the broker's answer, if there is one. With `flushes`, flush before looking."""
        values = {
            "topic": TOPIC,
            "producer_group": GROUP,
            "tran_state_table_offset": half.queue_offset,
            "commit_log_offset": half.physical_offset,
            "commit_or_rollback": outcome,
            "msg_id": "",
        }
        fields = EndTransactionRequestHeader(**values | given).to_fields()
        command = Command(RequestCode.END_TRANSACTION, opaque=7, fields=fields, flag=ONEWAY_FLAG if oneway else 0)
        peer = Producer()
        self.router.handle(peer.connection, [command])
        if flushes:
            self.flush()
        return peer.sent.pop() if peer.sent else None

    def flush(self) -> None:
        """Flush the log and send the answers that waited for it."""
        self.store.flush()
        self.answers.release()

    def take_checks(self, producer: Producer | None = None) -> list[tuple[str, AppendResult]]:
        """Return the checks that producers got since the last call: the message's name, and the place to answer with."""
        told = (producer or self.producer).told
        headers = [(command.header(CheckTransactionStateRequestHeader), decode_record(command.body)) for command in told]
        told.clear()
        return [
            (record.body.decode(), AppendResult(header.tran_state_table_offset, header.commit_log_offset, 0))
            for header, record in headers
        ]

    # --- time

    def pass_time(self, ms: int, step_ms: int = 1_000) -> None:
        """Move the clock forward and run what is due. Nothing is flushed."""
        end_ms = self.now_ms + ms
        while True:
            self.run_checks()
            if self.now_ms >= end_ms:
                return
            self.now_ms = min(end_ms, self.now_ms + step_ms)

    def run_checks(self) -> None:
        for _ in range(TURNS_MAX):
            if self.checks.check(self.now_ms) > self.now_ms:
                return
        raise AssertionError("the checks do not finish")

    # --- the disk

    def save_offsets(self) -> None:
        self._files.save_changes(CONSUMER_OFFSETS, self.offsets.rest_of_file(), self.offsets.take_changes(2**31))

    def restart_after_kill(self) -> Transacting:
        return Transacting(self.disk.kill(), now_ms=self.now_ms, **self._given)

    def restart_after_power_cut(self, rng: Random) -> Transacting:
        return Transacting(self.disk.crash(rng), now_ms=self.now_ms, **self._given)

    def restart_after_losing(self, lost: list[AppendResult]) -> Transacting:
        """Cut the power: of the log, only these records do not reach the disk. They must lie in its first segment."""
        disk = self.disk.kill()
        segment = disk.nodes[f"{ROOT}/commitlog/{0:020d}"]
        for _, at, size in lost:
            segment.content[at : at + size] = bytes(size)
        segment.durable[:] = segment.content
        return Transacting(disk, now_ms=self.now_ms, **self._given)

    # --- stored messages

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        found = []
        offset = 0
        while True:
            read = self.store.reading.messages(topic, queue_id, offset, 1000)
            if not read.records:
                return found
            found += [decode_record(view) for view in read.records]
            offset = read.next_offset

    def delivered(self) -> list[str]:
        return [record.body.decode() for record in self.records(TOPIC)]

    def given_up(self) -> list[str]:
        return [record.body.decode() for record in self.records(CHECK_MAX_TIME_TOPIC)]

    def op_bodies(self) -> list[str]:
        """Return the bodies of the op messages."""
        return [record.body.decode() for record in self.records(OP_TOPIC)]

    def progress(self) -> tuple[int, int]:
        return tuple(self.offsets.query(TRANSACTION_GROUP, topic, 0) for topic in (HALF_TOPIC, OP_TOPIC))  # type: ignore[return-value]
