"""Automatic batching: the timers and futures around the accumulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from skyrocket.client.accumulator import Accumulator, Batch
from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.protocol.message_id import ID_SEPARATOR

ENTRY_BYTES = 100  # what a message takes in a batch beside its body, roughly: properties and lengths


class BatchKey(NamedTuple):
    """What messages in one batch have in common."""

    topic: str  # the user's
    queue: Queue | None
    wait_until_stored: bool


class Waiting(NamedTuple):
    message: Message
    receipt: asyncio.Future[Receipt]


Deliver = Callable[[BatchKey, list[Message]], Awaitable[Receipt]]


class Batching:
    def __init__(self, deliver: Deliver, linger_ms: float, bytes_max: int, messages_max: int) -> None:
        self._deliver = deliver
        self._accumulator: Accumulator[BatchKey, Waiting] = Accumulator(linger_ms, bytes_max, messages_max)
        self._bytes_max = bytes_max
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: Message) -> bool:
        """Delayed messages travel alone, and large ones gain nothing by company."""
        return not message.is_delayed and len(message.body) + ENTRY_BYTES < self._bytes_max

    def add(self, message: Message, queue: Queue | None) -> asyncio.Future[Receipt]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Receipt] = loop.create_future()
        key = BatchKey(message.topic, queue, message.wait_until_stored)
        size_bytes = len(message.body) + ENTRY_BYTES
        for batch in self._accumulator.add(key, Waiting(message, future), size_bytes, loop.time() * 1000):
            self._send(batch)
        if self._timer is None:
            self._set_timer(loop)
        return future

    def flush(self) -> None:
        for batch in self._accumulator.take_all():
            self._send(batch)

    async def drain(self) -> None:
        """Until everything that was added has been answered."""
        self.flush()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due_ms = self._accumulator.next_due_ms()
        if due_ms is not None:
            self._timer = loop.call_at(due_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        for batch in self._accumulator.due(loop.time() * 1000 + 0.5):
            self._send(batch)
        self._set_timer(loop)

    def _send(self, batch: Batch[BatchKey, Waiting]) -> None:
        task = asyncio.get_running_loop().create_task(self._sent(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sent(self, batch: Batch[BatchKey, Waiting]) -> None:
        """One acknowledgement becomes one for each. Those who no longer wait are passed over; their message is sent all the same:
        it was taken."""
        try:
            receipt = await self._deliver(batch.key, [waiting.message for waiting in batch.entries])
        except ClientError as error:
            for waiting in batch.entries:
                if not waiting.receipt.done():
                    waiting.receipt.set_exception(error)
            return
        except BaseException:
            for waiting in batch.entries:
                waiting.receipt.cancel()
            raise
        ids = receipt.message_id.split(ID_SEPARATOR)
        offset_ids = receipt.offset_id.split(ID_SEPARATOR)
        if len(offset_ids) != len(ids):
            offset_ids = [receipt.offset_id] * len(ids)
        status, queue, first = receipt.status, receipt.queue, receipt.queue_offset
        for number, waiting in enumerate(batch.entries):
            if not waiting.receipt.done():
                waiting.receipt.set_result(Receipt(status, ids[number], offset_ids[number], queue, first + number))
