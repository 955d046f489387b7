"""The ledger: a topic that records, for each query, which batch it was committing and which it has committed.

The ledger is in the cluster of the rows, so it is available whenever they are. The sink creates it with one queue, at one broker;
an administrator may create it otherwise beforehand. All entries of a query go to one queue. The reader searches all queues of the
topic, so that their number may change. It reads the newest entries first, and a tag makes the broker skip other queries' entries.
Entries can be in the wrong order if one of them arrived late, so the reader also looks at those that were stored shortly before
the last one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.topics import TopicAdmin
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import NotFoundError, UnreachableError
from skyrocket.client.producer.delivery import Delivery
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.queues import Queue, queue_order
from skyrocket.client.receipt import Receipt
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
from skyrocket.spark.sink.fence import NO_FENCE, Fence
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger_entries import (
    BatchCommitting,
    LedgerEntry,
    LedgerReading,
    QueryLedger,
    combine_readings,
    committed_entry,
    committing_entries,
    entry_properties,
    ledger_tag,
    opened_entry,
    parse_entry,
)
from skyrocket.spark.sink.queue_scan import scan_queue
from skyrocket.spark.sink.retry_until import retry_until_answered
from skyrocket.spark.sink.sender import make_delivery

T = TypeVar("T")

FIRST_WINDOW: Final = 64  # entries at the end of a queue that are read first; each further window is eight times as large
WINDOW_GROWTH: Final = 8
WINDOW_MAX: Final = 1_000_000
LATE_MS_MAX: Final = 60_000  # an entry is stored at most this long after its driver has written a later one
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)


class SinkLedger:
    """The entries of one query in the ledger, for one commit."""

    def __init__(self, session: Session, options: SinkOptions, query_id: str) -> None:
        self._session = session
        self._options = options
        self._query_id = query_id
        self._topic = options.wire(options.ledger_topic)
        self._delivery: Delivery = make_delivery(session, options)
        self._ids = new_id_factory(session.address)
        self._barrier = Barrier(session, options)
        self._offsets = QueueOffsets(session, TOOLS_GROUP)
        self._read_to: dict[Queue, int] = {}  # how far each queue has been read

    # --- reading

    async def read(self, *, staged: Sequence[Handles] = (), written: Receipt | None = None) -> QueryLedger:
        """Return what the ledger has about the query, in all queues: their number may have changed since an entry was written.

        `staged` are half messages that were stored after the query's last entry, and `written` is an entry of this driver: where
        the ledger's broker has one of them, it serves as the barrier.
        """

        async def ask() -> QueryLedger:
            self._session.routes.forget(self._topic)
            queues = await self._find_queues(written)
            await self._wait_until_readable(queues, staged, written)
            return combine_readings([await self._read_queue(queue) for queue in queues])

        return await self._retry("read", ask)

    async def read_fence(self, written: Receipt | None = None) -> Fence:
        """Return the highest fence of the entries that were stored since the last reading: at least those before `written`."""

        async def ask() -> Fence:
            queues, fence, ends = await self._find_queues(written), NO_FENCE, dict[Queue, int]()
            if written is not None:
                await self._wait_until_readable(queues, (), written)
            for queue in queues:
                ends[queue] = await self._offsets.max_offset(queue)
                async for entry in self._read_entries(queue, self._read_to.get(queue, 0), ends[queue]):
                    fence = max(fence, entry.fence)
            self._read_to.update(ends)
            return fence

        return await self._retry("read", ask)

    async def _find_queues(self, written: Receipt | None) -> tuple[Queue, ...]:
        route = await self._session.route(self._topic)
        queues = () if route is None or route.is_borrowed else route.to_read
        if written is not None and written.queue not in queues:
            self._session.routes.forget(self._topic)
            raise UnreachableError(f"The nameservers do not list {written.queue}, which has an entry of the ledger.")
        return queues

    async def _wait_until_readable(self, queues: Iterable[Queue], staged: Sequence[Handles], written: Receipt | None) -> None:
        """Wait until the ledger's queues have everything that their brokers have stored before this call."""
        for queue in {queue.broker_name: queue for queue in queues}.values():
            if written is not None and written.queue.broker_name == queue.broker_name:
                await self._barrier.wait_for(written.queue, written.queue_offset)
            else:
                offsets = [int(each.half_offsets.max()) for each in staged if each.queue.broker_name == queue.broker_name]
                await self._barrier.wait(queue, max(offsets, default=None))

    async def _read_queue(self, queue: Queue) -> LedgerReading:
        """Read entries from the end of the queue until they show the query's state, and then those that a late entry may hide."""
        first, end = max(0, await self._offsets.min_offset(queue)), await self._offsets.max_offset(queue)
        self._read_to[queue] = end
        reading, window, late_from = LedgerReading(), FIRST_WINDOW, -1
        while end > first:
            start = max(first, end - window, late_from if end > late_from else 0)
            for entry in reversed([entry async for entry in self._read_entries(queue, start, end)]):
                reading.add(entry)
            end, window = start, min(window * WINDOW_GROWTH, WINDOW_MAX)
            if reading.is_conclusive:
                if late_from < 0:
                    late_from = await self._offsets.offset_at(queue, reading.newest_ms - LATE_MS_MAX)
                if end <= late_from:
                    return reading
        reading.check_complete()
        return reading

    async def _read_entries(self, queue: Queue, start: int, end: int) -> AsyncIterator[LedgerEntry]:
        async for records in scan_queue(self._session, queue, start, end, ledger_tag(self._query_id)):
            for parts in records:
                if parts.queue_offset >= end:
                    continue
                record = decode_record(parts.head + parts.body + parts.tail, check_crc=False)
                try:
                    properties = decode_properties(record.properties)
                except RecordError:
                    continue  # the sink did not write this message
                entry = parse_entry(properties, record.body, record.store_timestamp)
                if entry is not None and entry.query_id == self._query_id:
                    yield entry

    # --- writing

    async def write_opened(self, fence: Fence, brokers: Iterable[str]) -> Receipt:
        """Take an epoch. `brokers` are those where the ledger may be created if it does not exist."""
        await self._create_topic(brokers)
        return await self._write(opened_entry(self._query_id, fence))

    async def write_committing(self, begun: BatchCommitting, fence: Fence) -> Receipt:
        """Store all parts of the entry before returning the receipt of the last one."""
        *parts, last = committing_entries(self._query_id, begun, secrets.token_hex(8), fence)
        for part in parts:
            await self._write(part)  # in order: the last part proves that all parts exist
        return await self._write(last)

    async def write_committed(self, batch_id: int, fence: Fence) -> None:
        await self._write(committed_entry(self._query_id, batch_id, fence))

    async def _write(self, entry: LedgerEntry) -> Receipt:
        """Write an entry to the queue that the query's id selects, so that the entries of a query are in order."""
        message_id = self._ids.next(time.time_ns() // 1_000_000)
        text = encode_properties(entry_properties(entry, message_id)).decode()
        outgoing = SendRequest(self._topic, _SEND, message_id, text, entry.body)

        def choose(queues: Sequence[Queue]) -> Queue:
            return by_hash(sorted(queues, key=queue_order), entry.query_id)

        return await self._retry("written", lambda: self._delivery.attempt(outgoing, self._deadline_ms(), choose))

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

    async def _retry(self, done: str, ask: Callable[[], Awaitable[T]]) -> T:
        what = f"The sink's ledger could not be {done}"
        return await retry_until_answered(self._session, self._options.cluster, what, ask)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms
