"""The ledger: a topic that keeps, for each query, which batch it was committing and which it has committed.

It is in the cluster that the rows go to, so it is there when they are. It has one queue as this sink makes it, at one broker; an
administrator may make it otherwise beforehand. A query's entries all go to one queue, but all of the topic's are read, so that
their number may change. The newest entries are looked at first, and a tag lets the broker pass over those of other queries.
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
from skyrocket.spark.errors import OptionError, RefusedError
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.barrier import Barrier
from skyrocket.spark.sink.handles import Handles
from skyrocket.spark.sink.ledger_entry import (
    Committing,
    Entry,
    Nothing,
    Standing,
    committed_entry,
    committing_entries,
    entry_properties,
    ledger_tag,
    parsed_entry,
    standing,
)
from skyrocket.spark.sink.queue_scan import records_in
from skyrocket.spark.sink.retry_until import until_answered
from skyrocket.spark.sink.sending import delivery_of

FIRST_WINDOW: Final = 64  # entries before the end that are looked at first; then eight times as many, and so on
WINDOW_GROWTH: Final = 8
WINDOW_MAX: Final = 1_000_000
_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)


class Ledger:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._topic = options.wire(options.ledger_topic)
        self._delivery: Delivery = delivery_of(session, options)
        self._ids = new_id_factory(session.address)
        self._barrier = Barrier(session, options)

    # --- reading

    async def standing(self, query_id: str, staged: Sequence[Handles] = ()) -> Standing:
        """Nothing where no queue of the ledger knows the query; the furthest where, by a change of queues, several do.

        `staged` are half messages that came after the entries that matter: where the ledger's broker has one of them, it tells
        whether all entries can be read yet.
        """

        async def ask() -> Standing:
            self._session.routes.forget(self._topic)
            route = await self._session.route(self._topic)
            if route is None or route.is_borrowed:
                return Nothing()
            for queue in {queue.broker_name: queue for queue in route.to_read}.values():
                offsets = [int(each.half_offsets.max()) for each in staged if each.queue.broker_name == queue.broker_name]
                await self._barrier.passed(queue, max(offsets, default=None))
            found = [await self._standing_in(queue, query_id) for queue in route.to_read]
            return max(found, key=_progress, default=Nothing())

        return await until_answered(self._session, self._options.cluster, "The sink's ledger could not be read", ask)

    async def _standing_in(self, queue: Queue, query_id: str) -> Standing:
        entries: list[Entry] = []  # the newest first
        async for older, is_all in self._backwards(queue, query_id):
            entries += older
            told = standing(entries, is_all=is_all)
            if told is not None:
                return told
        return Nothing()

    async def _backwards(self, queue: Queue, query_id: str) -> AsyncIterator[tuple[list[Entry], bool]]:
        """The query's entries, window by window from the end of the queue; with each, whether it is the last."""
        offsets = QueueOffsets(self._session, TOOLS_GROUP)
        first, end = max(0, await offsets.min_offset(queue)), await offsets.max_offset(queue)
        window = FIRST_WINDOW
        while end > first:
            start = max(first, end - window)
            found = [entry async for entry in self._entries(queue, start, end, query_id)]
            yield found[::-1], start == first
            end, window = start, min(window * WINDOW_GROWTH, WINDOW_MAX)

    async def _entries(self, queue: Queue, start: int, end: int, query_id: str) -> AsyncIterator[Entry]:
        async for records in records_in(self._session, queue, start, end, ledger_tag(query_id)):
            for parts in records:
                if parts.queue_offset >= end:
                    continue
                record = decode_record(parts.head + parts.body + parts.tail, check_crc=False)
                try:
                    properties = decode_properties(record.properties)
                except RecordError:
                    continue  # nothing that this sink wrote
                entry = parsed_entry(properties, record.body)
                if entry is not None and entry.query_id == query_id:
                    yield entry

    # --- writing

    async def committing(self, query_id: str, begun: Committing) -> None:
        """Stored, all of it, when this returns."""
        await self._make(each.broker_name for each in begun.starts)
        for entry in committing_entries(query_id, begun, secrets.token_hex(8)):
            await self._write(entry)  # one after the other: the last part says that all are there

    async def committed(self, query_id: str, batch_id: int) -> None:
        await self._write(committed_entry(query_id, batch_id))

    async def _write(self, entry: Entry) -> None:
        """To a queue that the query's id chooses: entries of one query are in order."""
        message_id = self._ids.next(time.time_ns() // 1_000_000)
        text = encode_properties(entry_properties(entry, message_id)).decode()
        outgoing = SendRequest(self._topic, _SEND, message_id, text, entry.body)

        def choose(queues: Sequence[Queue]) -> Queue:
            return by_hash(sorted(queues, key=queue_order), entry.query_id)

        async def write() -> None:
            await self._delivery.attempt(outgoing, self._deadline_ms(), choose)

        await until_answered(self._session, self._options.cluster, "The sink's ledger could not be written", write)

    async def _make(self, brokers: Iterable[str]) -> None:
        """The topic, where there is none: with one queue, at the first of these brokers."""
        route = await self._session.route(self._topic)
        if route is not None and not route.is_borrowed:
            return
        first = min(brokers)

        async def make() -> None:
            try:
                await TopicAdmin(Brokers(self._session)).create(self._topic, queues=1, brokers=[first])
            except NotFoundError as error:  # it took rows a moment ago, so it will be back
                raise UnreachableError(str(error)) from error

        what = f"Option 'ledgerTopic': topic '{self._options.ledger_topic}' is not there and could not be made"
        try:
            await until_answered(self._session, self._options.cluster, what, make)
        except RefusedError as error:
            raise OptionError(str(error)) from error
        self._session.routes.forget(self._topic)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms


def _progress(told: Standing) -> tuple[int, bool]:
    """A batch that is committed is further than the same one being committed."""
    return (-1, False) if isinstance(told, Nothing) else (told.batch_id, not isinstance(told, Committing))
