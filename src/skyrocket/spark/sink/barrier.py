"""A broker's queues lag behind its log: what it has stored and acknowledged may not be readable for a moment. A barrier is a half
message: the log is in one order, so when the queue of half messages has it, every queue has all that was stored before it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import BrokerError, ClientError, TimedOutError
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.queues import Queue
from skyrocket.client.session.identity import new_id_factory
from skyrocket.client.session.session import Session
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.protocol.system_names import HALF_TOPIC, TOOLS_GROUP
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.sending import delivery_of

log = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.02


class Barrier:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._delivery = delivery_of(session, options)
        self._offsets = QueueOffsets(session, TOOLS_GROUP)
        self._ids = new_id_factory(session.address)

    async def passed(self, queue: Queue, half_offset: int | None = None) -> None:
        """Until all that the broker of this queue had stored can be read: before the half message at this offset of its queue of
        half messages, or without one, before now."""
        if half_offset is None:
            half_offset = await self._half(queue)
        halves = Queue(HALF_TOPIC, queue.broker_name, 0)
        deadline_ms = self._session.now_ms() + self._options.cluster.retry_ms
        while True:
            try:
                if await self._offsets.max_offset(halves) > half_offset:
                    return
            except BrokerError as error:
                log.warning("How far the queues of %s are behind cannot be found out: %s", queue.broker_name, error)
                return  # the time that things were given to settle has to do
            if self._session.now_ms() > deadline_ms:
                raise TimedOutError(f"The queues of broker {queue.broker_name} stay behind its log.")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _half(self, queue: Queue) -> int:
        """One that nobody will ever commit."""
        message_id = self._ids.next(time.time_ns() // 1_000_000)
        group = self._options.wire(self._options.group)
        properties = {p.UNIQUE_KEY: message_id, p.WAIT: "true", p.TRANSACTION_PREPARED: "true", p.PRODUCER_GROUP: group}
        text = encode_properties(properties).decode()
        outgoing = SendRequest(queue.topic, RequestCode.SEND_MESSAGE_V2, message_id, text, b"-", sys_flag=TRANSACTION_PREPARED)
        deadline_ms = self._session.now_ms() + self._options.cluster.retry_ms
        try:
            return (await self._delivery.attempt(outgoing, deadline_ms, lambda _: queue)).queue_offset
        except BrokerError:
            raise
        except ClientError as error:
            raise TimedOutError(f"The broker of {queue} takes no half message: {error}") from error
