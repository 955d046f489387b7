"""A task's rows staged as half messages, which no consumer sees until their batch is committed.

There are no batches of half messages, so each row is a request; many are under way at once. A half message whose answer is lost
is sent again: the first one, if it is there, is nobody's, and its broker drops it in time.
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
from skyrocket.spark.sink.rows import Rows
from skyrocket.spark.sink.sending import IN_FLIGHT_BYTES_MAX, delivery_of, queues_of, send_error

_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_AT_ONCE: Final = 64  # those that failed, tried again side by side


class _UnderWay(NamedTuple):
    row: int
    outgoing: SendRequest
    queue: Queue
    is_fixed: bool  # a sharding key chose the queue
    answer: asyncio.Future[Command | SendResponse]


class Staging:
    def __init__(self, session: Session, options: SinkOptions, prefix: str) -> None:
        self._session = session
        self._options = options
        self._prefix = prefix
        self._delivery = delivery_of(session, options)
        self._compression = options.packing()
        self._under_way: deque[_UnderWay] = deque()
        self._bytes = 0
        self._staged: dict[Queue, HandleList] = {}

    async def queues(self, topic: str) -> tuple[Queue, ...]:
        return await queues_of(self._session, self._options, self._delivery, topic)

    async def stage(self, rows: Rows, ids: Sequence[str], first_row: int) -> None:
        """Returns when all are under way, and not too many unanswered."""
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
            if answer is None:  # no connection to that broker yet, or any more
                await self._again([(first_row + at, outgoing, queue if shard is not None else None)])
                deadline_ms = self._deadline_ms()
                continue
            self._under_way.append(_UnderWay(first_row + at, outgoing, queue, shard is not None, answer))
            self._bytes += outgoing.size_bytes
            if len(self._under_way) >= self._options.in_flight_max or self._bytes > IN_FLIGHT_BYTES_MAX:
                await self._settle(len(self._under_way) // 2)
                deadline_ms = self._deadline_ms()

    async def finish(self) -> list[PackedHandles]:
        await self._settle(0)
        return [staged.handles(queue, self._prefix).packed() for queue, staged in self._staged.items()]

    async def _settle(self, left: int) -> None:
        """Until no more than so many are unanswered."""
        failed: list[tuple[int, SendRequest, Queue | None]] = []
        while len(self._under_way) > left:
            one = self._under_way.popleft()
            self._bytes -= one.outgoing.size_bytes
            try:
                receipt = build_receipt(await one.answer, one.outgoing.message_id, one.queue, one.queue.broker_name)
            except (NetError, BrokerError):
                failed.append((one.row, one.outgoing, one.queue if one.is_fixed else None))
            else:
                self._noted(one.row, receipt)
        for start in range(0, len(failed), _AT_ONCE):
            await self._again(failed[start : start + _AT_ONCE])

    async def _again(self, those: list[tuple[int, SendRequest, Queue | None]]) -> None:
        """By the patient way, which connects, changes brokers and raises what cannot be helped."""

        async def one(row: int, outgoing: SendRequest, queue: Queue | None) -> None:
            choose = None if queue is None else (lambda _: queue)
            try:
                self._noted(row, await self._delivery.attempt(outgoing, self._deadline_ms(), choose))
            except ClientError as error:
                raise send_error(outgoing.topic, error) from error

        await asyncio.gather(*(one(*each) for each in those))

    def _noted(self, row: int, receipt: Receipt) -> None:
        staged = self._staged.get(receipt.queue)
        if staged is None:
            staged = self._staged[receipt.queue] = HandleList()
        staged.add(row, decode_offset_id(receipt.offset_id).physical_offset, receipt.queue_offset)

    def _deadline_ms(self) -> int:
        return self._session.now_ms() + self._options.cluster.retry_ms
