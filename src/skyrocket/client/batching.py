"""Automatic batching: the gate, timers and futures around the accumulator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple

from skyrocket.client.accumulator import Accumulator, Batch
from skyrocket.client.errors import ClientError
from skyrocket.client.gate import Gate
from skyrocket.client.message import Message, plain_properties, properties_but_id
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.protocol.message_id import ID_SEPARATOR

ENTRY_BYTES = 64  # what a message takes in a batch beside its body and its own properties, roughly: its id, and lengths


class BatchKey(NamedTuple):
    """What messages in one batch have in common."""

    topic: str  # the user's
    queue: Queue | None = None
    wait_until_stored: bool = True


Waiting = tuple[Message, str, "asyncio.Future[Receipt]"]
"""A message, its properties but for the id, and who waits for its receipt."""
_Batch = Batch[str | BatchKey, Waiting]  # a topic alone stands for the key that most have: any queue, and waiting until stored

Deliver = Callable[[BatchKey, list[Waiting]], Awaitable[Receipt]]


class Batching:
    def __init__(
        self, deliver: Deliver, gate: Gate, linger_ms: float, bytes_max: int, messages_max: int, body_bytes_max: int
    ) -> None:
        """Made in the loop that it is used in. `body_bytes_max` is what any message may have."""
        self._deliver = deliver
        self._gate = gate
        self._loop = asyncio.get_running_loop()
        self._new_future: Callable[[], asyncio.Future[Receipt]] = self._loop.create_future
        self._accumulator: Accumulator[str | BatchKey, Waiting] = Accumulator(linger_ms, bytes_max, messages_max)
        self._body_bytes_max = min(body_bytes_max, bytes_max - ENTRY_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def takes(self, message: Message) -> bool:
        """Delayed messages travel alone, and large ones gain nothing by company."""
        return not message.is_delayed and len(message.body) <= self._body_bytes_max

    def try_add(self, message: Message) -> asyncio.Future[Receipt] | None:
        """The usual one, quickly: to any queue, with nothing to wait for. None: it is not, or there is no room; then `add` it."""
        size_bytes = len(message.body)
        if message.is_plain:
            properties = plain_properties(message.tag, message.wait_until_stored)
        elif message.sharding_key or message.is_delayed:
            return None
        else:
            properties = properties_but_id(message)
        if size_bytes > self._body_bytes_max or not self._gate.try_enter(size_bytes):
            return None
        key, future = message.topic if message.wait_until_stored else _key_of(message, None), self._new_future()
        waiting, size_bytes = (message, properties, future), size_bytes + len(properties) + ENTRY_BYTES
        if not self._accumulator.joined(key, waiting, size_bytes):
            self._begin(key, waiting, size_bytes)
        return future

    async def add(self, message: Message, queue: Queue | None) -> asyncio.Future[Receipt]:
        """The same for any that it takes, when there is room."""
        properties = properties_but_id(message)
        await self._gate.enter(len(message.body))  # which it leaves when it is answered
        future = self._new_future()
        self._begin(_key_of(message, queue), (message, properties, future), len(message.body) + len(properties) + ENTRY_BYTES)
        return future

    def _begin(self, key: str | BatchKey, waiting: Waiting, size_bytes: int) -> None:
        """In a batch that this one opens or fills, perhaps."""
        for batch in self._accumulator.add(key, waiting, size_bytes, self._loop.time() * 1000):
            self._send(batch)
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

    def _send(self, batch: _Batch) -> None:
        task = self._loop.create_task(self._sent(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _sent(self, batch: _Batch) -> None:
        """One acknowledgement becomes one for each. Those who no longer wait are passed over; their message is sent all the same:
        it was taken."""
        key = BatchKey(batch.key) if isinstance(batch.key, str) else batch.key
        try:
            receipt = await self._deliver(key, batch.entries)
        except ClientError as error:
            for _, _, future in batch.entries:
                if not future.done():
                    future.set_exception(error)
            return
        except BaseException:
            for _, _, future in batch.entries:
                future.cancel()
            raise
        finally:
            self._gate.leave(sum([len(message.body) for message, _, _ in batch.entries]), len(batch.entries))
        ids = receipt.message_id.split(ID_SEPARATOR)
        offset_ids = receipt.offset_id.split(ID_SEPARATOR)
        if len(offset_ids) != len(ids):
            offset_ids = [receipt.offset_id] * len(ids)
        status, queue = receipt.status, receipt.queue
        each = zip(batch.entries, ids, offset_ids, count(receipt.queue_offset))
        for (_, _, future), message_id, offset_id, offset in each:
            if not future.done():
                future.set_result(Receipt(status, message_id, offset_id, queue, offset))


def _key_of(message: Message, queue: Queue | None) -> str | BatchKey:
    """Equal for messages that may share a batch."""
    if queue is None and message.wait_until_stored:
        return message.topic
    return BatchKey(message.topic, queue, message.wait_until_stored)
