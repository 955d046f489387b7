"""The ledger: a topic that records, for each query, which batch it was committing and which it has committed.

The ledger is in the cluster of the rows, so it is available whenever they are. The sink creates it with one queue, at one broker;
an administrator may create it otherwise beforehand. All entries of a query go to one queue. The reader searches all queues of the
topic, so that their number may change. It reads the newest entries first, and a tag makes the broker skip other queries' entries.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.topics import TopicAdmin
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import NotFoundError, UnreachableError
from skyrocket.client.producer.delivery import Delivery
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.queues import Queue, queue_order
from skyrocket.client.session.identity import new_id_factory
from skyrocket.client.session.session import Session
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import decode_record
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.system_names import TOOLS_GROUP
from skyrocket.spark.errors import OptionError, RequestRefusedError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.barrier import Barrier
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger_entries import (
    BatchCommitting,
    LedgerEntry,
    LedgerState,
    NoBatch,
    committed_entry,
    committing_entries,
    entry_properties,
    ledger_state,
    ledger_tag,
    parse_entry,
)
from skyrocket.spark.sink.queue_scan import scan_queue
from skyrocket.spark.sink.retry_until import retry_until_answered
from skyrocket.spark.sink.sender import make_delivery

FIRST_WINDOW: Final = 64  # entries at the end of a queue that are read first; each further window is eight times as large
WINDOW_GROWTH: Final = 8
WINDOW_MAX: Final = 1_000_000
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)


class SinkLedger:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._topic = options.wire(options.ledger_topic)
        self._delivery: Delivery = make_delivery(session, options)
        self._ids = new_id_factory(session.address)
        self._barrier = Barrier(session, options)

    # --- reading

    async def read_state(self, query_id: str, staged: Sequence[Handles] = ()) -> LedgerState:
        """Return what the ledger has about a query: `NoBatch` if no queue has an entry, otherwise the most advanced state.

        Several queues may have entries of a query if the number of queues has changed. `staged` are half messages that were
        stored after the query's last entry: if the ledger's broker has one, it serves as the barrier.
        """

        async def ask() -> LedgerState:
            self._session.routes.forget(self._topic)
            route = await self._session.route(self._topic)
            if route is None or route.is_borrowed:
                return NoBatch()
            for queue in {queue.broker_name: queue for queue in route.to_read}.values():
                offsets = [int(each.half_offsets.max()) for each in staged if each.queue.broker_name == queue.broker_name]
                await self._barrier.wait(queue, max(offsets, default=None))
            found = [await self._read_queue(queue, query_id) for queue in route.to_read]
            return max(found, key=_progress, default=NoBatch())

        return await retry_until_answered(self._session, self._options.cluster, "The sink's ledger could not be read", ask)

    async def _read_queue(self, queue: Queue, query_id: str) -> LedgerState:
        entries: list[LedgerEntry] = []  # the newest first
        async for older, is_all in self._read_backwards(queue, query_id):
            entries += older
            state = ledger_state(entries, is_all=is_all)
            if state is not None:
                return state
        return NoBatch()

    async def _read_backwards(self, queue: Queue, query_id: str) -> AsyncIterator[tuple[list[LedgerEntry], bool]]:
        """Yield the query's entries window by window, from the end of the queue, and whether the window is the last."""
        offsets = QueueOffsets(self._session, TOOLS_GROUP)
        first, end = max(0, await offsets.min_offset(queue)), await offsets.max_offset(queue)
        window = FIRST_WINDOW
        while end > first:
            start = max(first, end - window)
            found = [entry async for entry in self._read_entries(queue, start, end, query_id)]
            yield found[::-1], start == first
            end, window = start, min(window * WINDOW_GROWTH, WINDOW_MAX)

    async def _read_entries(self, queue: Queue, start: int, end: int, query_id: str) -> AsyncIterator[LedgerEntry]:
        async for records in scan_queue(self._session, queue, start, end, ledger_tag(query_id)):
            for parts in records:
                if parts.queue_offset >= end:
                    continue
                record = decode_record(parts.head + parts.body + parts.tail, check_crc=False)
                try:
                    properties = decode_properties(record.properties)
                except RecordError:
                    continue  # the sink did not write this message
                entry = parse_entry(properties, record.body)
                if entry is not None and entry.query_id == query_id:
                    yield entry

    # --- writing

    async def write_committing(self, query_id: str, begun: BatchCommitting) -> None:
        """Store all parts of the entry before returning."""
        await self._create_topic(each.broker_name for each in begun.starts)
        for entry in committing_entries(query_id, begun, secrets.token_hex(8)):
            await self._write(entry)  # in order: the last part proves that all parts exist

    async def write_committed(self, query_id: str, batch_id: int) -> None:
        await self._write(committed_entry(query_id, batch_id))

    async def _write(self, entry: LedgerEntry) -> None:
        """Write an entry to the queue that the query's id selects, so that the entries of a query are in order."""
        message_id = self._ids.next(time.time_ns() // 1_000_000)
        text = encode_properties(entry_properties(entry, message_id)).decode()
        outgoing = SendRequest(self._topic, _SEND, message_id, text, entry.body)

        def choose(queues: Sequence[Queue]) -> Queue:
            return by_hash(sorted(queues, key=queue_order), entry.query_id)

        async def write() -> None:
            await self._delivery.attempt(outgoing, self._deadline_ms(), choose)

        await retry_until_answered(self._session, self._options.cluster, "The sink's ledger could not be written", write)

    async def _create_topic(self, brokers: Iterable[str]) -> None:
        """Create the topic if it does not exist: one queue, at the first of these brokers."""
        route = await self._session.route(self._topic)
        if route is not None and not route.is_borrowed:
            return
        first = min(brokers)

        async def create() -> None:
            try:
                await TopicAdmin(Brokers(self._session)).create(self._topic, queues=1, brokers=[first])
            except NotFoundError as error:  # the broker accepted rows a moment ago, so it will be back
                raise UnreachableError(str(error)) from error

        what = f"Option 'ledgerTopic': topic '{self._options.ledger_topic}' does not exist and could not be created"
        try:
            await retry_until_answered(self._session, self._options.cluster, what, create)
        except RequestRefusedError as error:
            raise OptionError(str(error)) from error
        self._session.routes.forget(self._topic)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms


def _progress(state: LedgerState) -> tuple[int, bool]:
    """Return a sort key: a committed batch is more advanced than the same batch being committed."""
    return (-1, False) if isinstance(state, NoBatch) else (state.batch_id, not isinstance(state, BatchCommitting))
