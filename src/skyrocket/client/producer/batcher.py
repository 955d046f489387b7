"""Automatic batching: the gate, timers and futures around the accumulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count, repeat
from typing import NamedTuple

from skyrocket.client.errors import ClientError
from skyrocket.client.message import Message, properties_but_id, usual_properties
from skyrocket.client.producer.accumulator import Accumulator, Batch
from skyrocket.client.producer.in_flight_limit import Gate
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.protocol.message.message_id import ID_SEPARATOR

ENTRY_BYTES = 64  # what a message takes in a batch beside its body and its own properties, roughly: its id, and lengths


class BatchKey(NamedTuple):
    """What messages in one batch have in common."""

    topic: str  # the user's
    queue: Queue | None = None
    wait_until_stored: bool = True


_Key = str | BatchKey  # a topic alone stands for the key that most have: any queue, and waiting until stored

Deliver = Callable[[BatchKey, list[Message], list[str]], Awaitable[tuple[Receipt, list[str]]]]
"""Sends messages with their properties as one batch: the receipt of all, and the id of each."""


class Batching:
    def __init__(
        self, deliver: Deliver, gate: Gate, linger_ms: float, bytes_max: int, messages_max: int, body_bytes_max: int
    ) -> None:
        """Made in the loop that it is used in. `body_bytes_max` is what any message may have."""
        self._deliver = deliver
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._new_future: Callable[[], asyncio.Future[Receipt]] = self._loop.create_future
        self._accumulator: Accumulator[_Key] = Accumulator(linger_ms, bytes_max, messages_max)
        self._none: Batch[_Key] = Batch("", 0)  # no topic is called that
        self._latest = self._none  # the batch that a message was put into, as long as it is open
        self._size_bytes_max, self._company_max = bytes_max - 1, messages_max - 2  # of a batch that stays open for others
        self._body_bytes_max = min(body_bytes_max, bytes_max - ENTRY_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: Message) -> bool:
        """Delayed messages travel alone, and large ones gain nothing by company."""
        return not message.is_delayed and len(message.body) <= self._body_bytes_max

    def try_add(self, message: Message) -> asyncio.Future[Receipt] | None:
        """To any queue, with nothing to wait for. None: it is another kind of message, or there is no room; then `add` it.

        Nearly always it is like the one before, and joins that one's batch here and now: each call from here would be felt.
        """
        key: _Key
        if (
            message.wait_until_stored
            and not (message.keys or message.properties or message.sharding_key or message.delay_level)
            and message.deliver_in is None
            and message.deliver_at is None
        ):
            key, properties = message.topic, usual_properties(message.tag)
        elif message.sharding_key or message.is_delayed:
            return None
        else:
            key, properties = _key_of(message, None), properties_but_id(message)
        body_bytes, batch = len(message.body), self._latest
        own_bytes = body_bytes + len(properties) + ENTRY_BYTES
        if body_bytes > self._body_bytes_max or not self._gate.try_enter(own_bytes):
            return None
        future, size_bytes = self._new_future(), batch.size_bytes + own_bytes
        if key == batch.key and size_bytes <= self._size_bytes_max and len(batch.messages) <= self._company_max:
            batch.size_bytes = size_bytes
            batch.messages.append(message)
            batch.properties.append(properties)
            batch.futures.append(future)
        else:
            self._place(key, message, properties, future, own_bytes)
        return future

    async def add(self, message: Message, queue: Queue | None) -> asyncio.Future[Receipt]:
        """The same for any that it takes, when there is room."""
        properties = properties_but_id(message)
        own_bytes = len(message.body) + len(properties) + ENTRY_BYTES
        await self._gate.enter(own_bytes)  # which it leaves when it is answered
        future = self._new_future()
        self._place(_key_of(message, queue), message, properties, future, own_bytes)
        return future

    def _place(self, key: _Key, message: Message, properties: str, future: asyncio.Future[Receipt], own_bytes: int) -> None:
        """In a batch that this one opens or fills, perhaps."""
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

    def _set_timer(self) -> None:
        due_ms = self._accumulator.next_due_ms()
        if due_ms is not None:
            self._timer = self._loop.call_at(due_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        for batch in self._accumulator.due(self._loop.time() * 1000 + 0.5):
            self._send(batch)
        self._set_timer()

    def _send(self, batch: Batch[_Key]) -> None:
        if batch is self._latest:
            self._latest = self._none
        task = self._loop.create_task(self._sent(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sent(self, batch: Batch[_Key]) -> None:
        """One acknowledgement becomes one for each. Those who no longer wait are passed over; their message is sent all the same:
        it was taken."""
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
            self._gate.leave(batch.size_bytes, len(futures))
        offset_ids = receipt.offset_id.split(ID_SEPARATOR)
        if len(offset_ids) != len(ids):
            offset_ids = [receipt.offset_id] * len(ids)
        offsets = count(receipt.queue_offset)
        receipts = map(Receipt, repeat(receipt.status), ids, offset_ids, repeat(receipt.queue), offsets)
        for future, each in zip(futures, receipts, strict=True):
            if not future.done():
                future.set_result(each)


def _key_of(message: Message, queue: Queue | None) -> _Key:
    """Equal for messages that may share a batch."""
    if queue is None and message.wait_until_stored:
        return message.topic
    return BatchKey(message.topic, queue, message.wait_until_stored)
