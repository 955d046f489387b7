"""The general path: builds the request for a message, with every option applied, and hands it to `Delivery`.

It compresses bodies, adds the namespace to topics and removes it from receipts, and turns a queue, a selector or a sharding key
into the choice of a queue. The other strategies fall back to it; batches, one-way sends, requests and transactions use its parts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import msgspec

from skyrocket.client.message import Message, check_size, properties_text
from skyrocket.client.producer.compression import Compression
from skyrocket.client.producer.delivery import Delivery, QueueChooser
from skyrocket.client.producer.queue_selection import QueueSelector, by_hash
from skyrocket.client.producer.request_frames import SEND_CODE, SendRequest, build_batch
from skyrocket.client.producer.send_strategy import SendStrategy
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.namespaces import with_namespace, without_namespace
from skyrocket.protocol.message.message_id import UniqueIdFactory
from skyrocket.protocol.message.properties import INSTANCE_ID


class GeneralPath(SendStrategy):
    """Sends any message with any options, at the price of a few more calls for each."""

    def __init__(
        self,
        delivery: Delivery,
        ids: UniqueIdFactory,
        compression: Compression,
        *,
        namespace: str,
        timeout_ms: int,
        body_bytes_max: int,
    ) -> None:
        self.delivery = delivery
        self.ids = ids
        self.body_bytes_max = body_bytes_max
        self.timeout_ms = timeout_ms
        self._compression = compression
        self._namespace = namespace
        self._namespace_properties = {INSTANCE_ID: namespace} if namespace else None
        self._now_ms = delivery.now_ms

    async def send(
        self, message: Message, queue: Queue | None, selector: QueueSelector | None, timeout_ms: int | None
    ) -> Receipt:
        body, compression = message.body, self._compression
        if not compression.wants(body):
            request = self._build(message, body, 0, None)
        elif not compression.is_slow(body):
            request = self.build_request(message)
        else:  # compressing a large body takes milliseconds: a thread does it, and the loop goes on
            check_size(message, self.body_bytes_max)
            body, bits = await asyncio.to_thread(compression.pack, body)
            request = self._build(message, body, bits, None)
        is_open = queue is None and selector is None and not message.sharding_key
        choose = None if is_open else self.choose_queue(message, queue, selector)
        deadline_ms = self._now_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)
        receipt = await self.delivery.deliver(request, deadline_ms, choose)
        return self.user_receipt(receipt) if self._namespace else receipt

    async def deliver(
        self,
        request: SendRequest,
        message: Message,
        queue: Queue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> Receipt:
        """Send a request that was built for `message`, or for a batch that begins with it."""
        choose = self.choose_queue(message, queue, selector)
        return self.user_receipt(await self.delivery.deliver(request, self.deadline_ms(timeout_ms), choose))

    def deadline_ms(self, timeout_ms: int | None = None) -> int:
        return self._now_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)

    # --- requests

    def build_request(self, message: Message, properties: Mapping[str, str] | None = None, sys_flag: int = 0) -> SendRequest:
        """Build the request for one message: compressed where it pays, with these properties of the client added."""
        body, bits = self._compression.pack(message.body)
        return self._build(message, body, bits | sys_flag, properties)

    def build_batch_request(self, messages: Sequence[Message]) -> SendRequest:
        now_ms, new_id = time.time_ns() // 1_000_000, self.ids.next
        topic = self.wire_topic(messages[0].topic)
        return build_batch(topic, [(message, new_id(now_ms)) for message in messages], new_id(now_ms))

    def _build(self, message: Message, body: bytes, sys_flag: int, added: Mapping[str, str] | None) -> SendRequest:
        if len(message.body) > self.body_bytes_max:
            check_size(message, self.body_bytes_max)
        message_id, topic = self.ids.next(time.time_ns() // 1_000_000), message.topic
        if self._namespace_properties is not None:
            added, topic = {**self._namespace_properties, **(added or {})}, self.wire_topic(topic)
        properties = properties_text(message, message_id, added)
        return SendRequest(topic, SEND_CODE, message_id, properties, body, sys_flag=sys_flag, flag=message.flag)

    # --- queues and names

    async def find_queues(self, topic: str, deadline_ms: int | None = None) -> tuple[Queue, ...]:
        """Return the queues, with names on the wire, that accept messages for a topic of the user."""
        return await self.delivery.find_queues(self.wire_topic(topic), self.deadline_ms() if deadline_ms is None else deadline_ms)

    def choose_queue(self, message: Message, queue: Queue | None, selector: QueueSelector | None) -> QueueChooser | None:
        """Return the function that picks the message's queue; None: the queues in turn."""
        if queue is not None:
            chosen = queue._replace(topic=self.wire_topic(message.topic))
            return lambda _: chosen
        if selector is not None:
            return lambda queues: selector([self.user_queue(each) for each in queues], message)._replace(
                topic=self.wire_topic(message.topic)
            )
        key = message.sharding_key
        return (lambda queues: by_hash(queues, key)) if key else None

    def wire_topic(self, topic: str) -> str:
        """Add the namespace to a topic of the user."""
        return with_namespace(self._namespace, topic) if self._namespace else topic

    def user_queue(self, queue: Queue) -> Queue:
        """Remove the namespace from a queue's topic."""
        return queue._replace(topic=without_namespace(self._namespace, queue.topic)) if self._namespace else queue

    def user_receipt(self, receipt: Receipt) -> Receipt:
        """Remove the namespace from a receipt's queue."""
        return msgspec.structs.replace(receipt, queue=self.user_queue(receipt.queue)) if self._namespace else receipt
