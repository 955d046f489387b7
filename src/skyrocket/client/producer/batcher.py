"""Automatic batching: the in-flight limit, the timer and the futures around the accumulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, repeat
from typing import NamedTuple

from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message, properties_without_id
from skyrocket.client.producer.accumulator import Accumulator
from skyrocket.client.producer.open_batch import ENTRY_BYTES, Batch, BatchJoiner, JoinLimits, complete_futures
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.protocol.message.message_id import ID_SEPARATOR


class BatchKey(NamedTuple):
    """What the messages of one batch have in common."""

    topic: str  # without namespace
    queue: Queue | None = None
    wait_until_stored: bool = True


_Key = str | BatchKey  # a topic alone stands for the most frequent key: any queue, and wait_until_stored

DeliverBatch = Callable[[BatchKey, list[Message], list[str]], Awaitable[tuple[Receipt, list[str]]]]
"""Sends messages with their properties as one batch; returns the receipt of the batch and the id of each message."""


class Batcher:
    """Collects messages into batches and sends each batch when it is full or has lingered."""

    def __init__(
        self,
        deliver: DeliverBatch,
        in_flight: InFlightLimit,
        linger_ms: float,
        bytes_max: int,
        messages_max: int,
        body_bytes_max: int,
    ) -> None:
        """Create it inside the event loop that will use it. `body_bytes_max` bounds the body of any message."""
        self._deliver = deliver
        self._in_flight = in_flight
        self._loop = asyncio.get_running_loop()
        self._new_future: Callable[[], asyncio.Future[Receipt]] = self._loop.create_future
        self._accumulator: Accumulator[_Key] = Accumulator(linger_ms, bytes_max, messages_max)
        self._body_bytes_max = min(body_bytes_max, bytes_max - ENTRY_BYTES)
        limits = JoinLimits(bytes_max - 1, messages_max - 2, self._body_bytes_max)
        self._open = BatchJoiner(in_flight, self._new_future, limits, Message, properties_without_id, self._try_place)
        self.try_add = self._open.try_add
        """Adds a message that may go to any queue, and returns the future of its receipt. Returns None when the message is of
        another kind or the in-flight limit is reached; `add` serves those."""
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def can_batch(self, message: Message) -> bool:
        """Whether the message may join a batch. Delayed messages must not, and large ones gain nothing."""
        return not message.is_delayed and len(message.body) <= self._body_bytes_max

    def _try_place(self, message: Message) -> asyncio.Future[Receipt] | None:
        """Add a message that cannot join the batch of the one before."""
        if message.sharding_key or message.is_delayed:
            return None
        properties, body_bytes = properties_without_id(message), len(message.body)
        own_bytes = body_bytes + len(properties) + ENTRY_BYTES
        if body_bytes > self._body_bytes_max or not self._in_flight.try_acquire(own_bytes):
            return None
        future = self._new_future()
        self._place(_batch_key(message, None), message, properties, future, own_bytes)
        return future

    async def add(self, message: Message, queue: Queue | None) -> asyncio.Future[Receipt]:
        """Add any message that `can_batch` allows, once the in-flight limit has room; return the future of its receipt."""
        properties = properties_without_id(message)
        own_bytes = len(message.body) + len(properties) + ENTRY_BYTES
        await self._in_flight.acquire(own_bytes)  # released when the batch is acknowledged
        future = self._new_future()
        self._place(_batch_key(message, queue), message, properties, future, own_bytes)
        return future

    def _place(self, key: _Key, message: Message, properties: str, future: asyncio.Future[Receipt], own_bytes: int) -> None:
        """Put a message into a batch that it may open or fill."""
        batch, full = self._accumulator.place(key, own_bytes, self._loop.time() * 1000)
        batch.messages.append(message)
        batch.properties.append(properties)
        batch.futures.append(future)
        self._open.batch = batch
        for each in full:
            self._send(each)
        if self._timer is None:
            self._set_timer()

    def flush(self) -> None:
        """Send every open batch now."""
        for batch in self._accumulator.take_all():
            self._send(batch)

    async def drain(self) -> None:
        """Send every open batch, and wait until each message has been acknowledged or has failed."""
        self.flush()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        due_ms = self._accumulator.next_due_ms()
        if due_ms is not None:
            self._timer = self._loop.call_at(due_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        for batch in self._accumulator.due(self._loop.time() * 1000 + 0.5):
            self._send(batch)
        self._set_timer()

    def _send(self, batch: Batch[_Key]) -> None:
        if batch is self._open.batch:
            self._open.batch = None
        task = self._loop.create_task(self._deliver_batch(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver_batch(self, batch: Batch[_Key]) -> None:
        """Send a batch and turn its receipt into one for each message. A message whose future was cancelled is sent too, because
        the batch has accepted it."""
        key = BatchKey(batch.key) if isinstance(batch.key, str) else batch.key
        futures = batch.futures
        try:
            receipt, ids = await self._deliver(key, batch.messages, batch.properties)
        except ClientError as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        finally:
            self._in_flight.release(batch.size_bytes, len(futures))
        offset_ids = receipt.offset_id.split(ID_SEPARATOR)
        if len(offset_ids) != len(ids):
            offset_ids = [receipt.offset_id] * len(ids)
        offsets = count(receipt.queue_offset)
        complete_futures(futures, list(map(Receipt, repeat(receipt.status), ids, offset_ids, repeat(receipt.queue), offsets)))


def _batch_key(message: Message, queue: Queue | None) -> _Key:
    """Return a key that is equal for messages that may share a batch."""
    if queue is None and message.wait_until_stored:
        return message.topic
    return BatchKey(message.topic, queue, message.wait_until_stored)
