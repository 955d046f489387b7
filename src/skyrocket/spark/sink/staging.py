"""Stages the rows of a task as half messages, which no consumer sees until the batch is committed.

RocketMQ has no batches of half messages, so each row is a request; many are in flight at once. If the answer to a half message
is lost, the row is sent again. The first half message may exist, too; nothing commits it, and its broker drops it later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from skyrocket.client.errors import BrokerError, ClientError
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt, build_receipt
from skyrocket.client.session.send_responses import SendResponse
from skyrocket.client.session.session import Session
from skyrocket.net.errors import NetError
from skyrocket.protocol.command import Command
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.handles import HandleList, PackedHandles
from skyrocket.spark.sink.rows import SinkRows
from skyrocket.spark.sink.sender import IN_FLIGHT_BYTES_MAX, find_queues, make_delivery, send_error

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_CONCURRENT_RETRIES_MAX: Final = 64


class _StagedRow(NamedTuple):
    """A row whose half message is in flight."""

    row: int
    outgoing: SendRequest
    queue: Queue
    is_fixed: bool  # a sharding key selected the queue
    answer: asyncio.Future[Command | SendResponse]


class RowStaging:
    def __init__(self, session: Session, options: SinkOptions, prefix: str) -> None:
        self._session = session
        self._options = options
        self._prefix = prefix
        self._delivery = make_delivery(session, options)
        self._compression = options.body_compression()
        self._in_flight: deque[_StagedRow] = deque()
        self._bytes = 0
        self._staged: dict[Queue, HandleList] = {}

    async def queues(self, topic: str) -> tuple[Queue, ...]:
        return await find_queues(self._session, self._options, self._delivery, topic)

    async def stage(self, rows: SinkRows, ids: Sequence[str], first_row: int) -> None:
        """Send a half message for each row. Return with at most `maxInFlight` of them unanswered."""
        sharding = rows.sharding_keys
        deadline_ms = self._deadline_ms()
        for at, (topic, body, text) in enumerate(zip(rows.topics, rows.bodies, rows.properties, strict=True)):
            packed, bits = self._compression.pack(body)
            outgoing = SendRequest(topic, _SEND, ids[at], text.decode(), packed, sys_flag=bits | TRANSACTION_PREPARED)
            shard = None if sharding is None else sharding[at]
            route = self._session.routes.route(topic)
            queues = route.to_write if route is not None and route.to_write else await self.queues(topic)
            queue = self._delivery.round_robin(topic).next(queues) if shard is None else by_hash(queues, shard)
            answer = self._delivery.request(outgoing, queue, deadline_ms)
            if answer is None:  # there is no open connection to that broker
                await self._retry([(first_row + at, outgoing, queue if shard is not None else None)])
                deadline_ms = self._deadline_ms()
                continue
            self._in_flight.append(_StagedRow(first_row + at, outgoing, queue, shard is not None, answer))
            self._bytes += outgoing.size_bytes
            if len(self._in_flight) >= self._options.in_flight_max or self._bytes > IN_FLIGHT_BYTES_MAX:
                await self._wait(len(self._in_flight) // 2)
                deadline_ms = self._deadline_ms()

    async def finish(self) -> list[PackedHandles]:
        """Wait until all half messages are acknowledged, and return their handles."""
        await self._wait(0)
        return [staged.handles(queue, self._prefix).pack() for queue, staged in self._staged.items()]

    async def _wait(self, left: int) -> None:
        """Wait until at most `left` half messages are unanswered, and retry those that failed."""
        failed: list[tuple[int, SendRequest, Queue | None]] = []
        while len(self._in_flight) > left:
            one = self._in_flight.popleft()
            self._bytes -= one.outgoing.size_bytes
            try:
                receipt = build_receipt(await one.answer, one.outgoing.message_id, one.queue, one.queue.broker_name)
            except (NetError, BrokerError):
                failed.append((one.row, one.outgoing, one.queue if one.is_fixed else None))
            else:
                self._add_handle(one.row, receipt)
        for start in range(0, len(failed), _CONCURRENT_RETRIES_MAX):
            await self._retry(failed[start : start + _CONCURRENT_RETRIES_MAX])

    async def _retry(self, failed: list[tuple[int, SendRequest, Queue | None]]) -> None:
        """Send rows through `Delivery`, which connects, tries other brokers, and raises the final error."""

        async def send(row: int, outgoing: SendRequest, queue: Queue | None) -> None:
            choose = None if queue is None else (lambda _: queue)
            try:
                self._add_handle(row, await self._delivery.attempt(outgoing, self._deadline_ms(), choose))
            except ClientError as error:
                raise send_error(outgoing.topic, error) from error

        await asyncio.gather(*(send(*each) for each in failed))

    def _add_handle(self, row: int, receipt: Receipt) -> None:
        staged = self._staged.get(receipt.queue)
        if staged is None:
            staged = self._staged[receipt.queue] = HandleList()
        staged.add(row, decode_offset_id(receipt.offset_id).physical_offset, receipt.queue_offset)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms
