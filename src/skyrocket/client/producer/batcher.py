"""Automatic batching: the in-flight limit, the timer and the futures around the accumulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, repeat
from typing import NamedTuple

from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message, default_properties, properties_without_id
from skyrocket.client.producer.accumulator import Accumulator, Batch
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.in_flight_limit import InFlightLimit
from skyrocket.protocol.message.message_id import ID_SEPARATOR

ENTRY_BYTES = 64  # roughly what a message adds to a batch beside its body and its properties: its id, and lengths


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
        self._none: Batch[_Key] = Batch("", 0)  # no topic has an empty name, so no message joins this batch
        self._latest = self._none  # the batch that received the last message, while it is open
        self._size_bytes_max, self._count_max = bytes_max - 1, messages_max - 2  # of a batch that stays open for another message
        self._body_bytes_max = min(body_bytes_max, bytes_max - ENTRY_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def can_batch(self, message: Message) -> bool:
        """Whether the message may join a batch. Delayed messages must not, and large ones gain nothing."""
        return not message.is_delayed and len(message.body) <= self._body_bytes_max

    def try_add(self, message: Message) -> asyncio.Future[Receipt] | None:
        """Add a message that may go to any queue, and return the future of its receipt.

        Return None when the message is of another kind or the in-flight limit is reached; `add` serves those. Nearly always the
        message is like the one before and joins its batch right here: each further call would be measurable.
        """
        key: _Key
        if (
            message.wait_until_stored
            and not (message.keys or message.properties or message.sharding_key or message.delay_level)
            and message.deliver_in is None
            and message.deliver_at is None
        ):
            key, properties = message.topic, default_properties(message.tag)
        elif message.sharding_key or message.is_delayed:
            return None
        else:
            key, properties = _batch_key(message, None), properties_without_id(message)
        body_bytes, batch = len(message.body), self._latest
        own_bytes = body_bytes + len(properties) + ENTRY_BYTES
        if body_bytes > self._body_bytes_max or not self._in_flight.try_acquire(own_bytes):
            return None
        future, size_bytes = self._new_future(), batch.size_bytes + own_bytes
        if key == batch.key and size_bytes <= self._size_bytes_max and len(batch.messages) <= self._count_max:
            batch.size_bytes = size_bytes
            batch.messages.append(message)
            batch.properties.append(properties)
            batch.futures.append(future)
        else:
            self._place(key, message, properties, future, own_bytes)
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
        self._latest = batch
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
        if batch is self._latest:
            self._latest = self._none
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
        receipts = map(Receipt, repeat(receipt.status), ids, offset_ids, repeat(receipt.queue), offsets)
        for future, each in zip(futures, receipts, strict=True):
            if not future.done():
                future.set_result(each)


def _batch_key(message: Message, queue: Queue | None) -> _Key:
    """Return a key that is equal for messages that may share a batch."""
    if queue is None and message.wait_until_stored:
        return message.topic
    return BatchKey(message.topic, queue, message.wait_until_stored)
