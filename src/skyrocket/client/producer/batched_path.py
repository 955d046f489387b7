"""The batched path: with `linger_ms`, messages wait a little and share a request. Each message still gets its own receipt."""

from __future__ import annotations

import time

from skyrocket.client.message import Message, check_size
from skyrocket.client.producer.batcher import Batcher, BatchKey
from skyrocket.client.producer.general_path import GeneralPath
from skyrocket.client.producer.queue_selection import QueueSelector, by_hash
from skyrocket.client.producer.request_frames import build_batch_of_parts
from skyrocket.client.producer.send_strategy import SendStrategy
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.in_flight_limit import InFlightLimit


class BatchedPath(SendStrategy):
    """Puts messages into batches. Delayed and large messages, and sends with a selector or a timeout of their own, go alone."""

    def __init__(
        self, general: GeneralPath, in_flight: InFlightLimit, *, linger_ms: float, bytes_max: int, messages_max: int
    ) -> None:
        self._general = general
        self._batcher = Batcher(self._deliver, in_flight, linger_ms, bytes_max, messages_max, general.body_bytes_max)
        self.try_enqueue = self._batcher.try_add

    async def send(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        if selector is None and timeout_ms is None:
            if queue is None:
                future = self._batcher.try_add(message)
                if future is not None:
                    return await future
            if self._batcher.can_batch(message):
                return await self._enqueue(message, queue)
        return await self._general.send(message, queue, selector, timeout_ms)

    async def drain(self) -> None:
        await self._batcher.drain()

    def close(self) -> None:
        self._batcher.close()

    async def _enqueue(self, message: Message, queue: Queue | None) -> Receipt:
        check_size(message, self._general.body_bytes_max)
        if queue is None and message.sharding_key:
            queues = await self._general.find_queues(message.topic)
            queue = self._general.user_queue(by_hash(queues, message.sharding_key))
        return await (await self._batcher.add(message, queue))

    async def _deliver(self, key: BatchKey, messages: list[Message], properties: list[str]) -> tuple[Receipt, list[str]]:
        """Send one batch; return the receipt of the whole and the id of each message. A single message travels as usual."""
        general, now_ms = self._general, time.time_ns() // 1_000_000
        if len(messages) == 1:
            request = general.build_request(messages[0])
            ids = [request.message_id]
        else:
            ids = general.ids.next_ids(now_ms, len(messages))
            topic = general.wire_topic(key.topic)
            request = build_batch_of_parts(topic, messages, properties, ids, general.ids.next(now_ms))
        queue = key.queue
        choose = (lambda _: queue._replace(topic=request.topic)) if queue is not None else None
        receipt = await general.delivery.attempt(request, general.deadline_ms(), choose)
        return general.user_receipt(receipt), ids
