"""Waits until everything that a broker has stored can be read.

A broker's consume queues lag behind its log: for a moment, an acknowledged message cannot be pulled. The barrier is a half
message. The log has one order, so once the queue of half messages has the barrier, every queue has all messages stored before it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import BrokerError, ClientError, TimedOutError
from skyrocket.client.producer.request_frames import SendRequest
from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import Receipt
from skyrocket.client.session.identity import new_id_factory
from skyrocket.client.session.session import Session
from skyrocket.protocol.headers import EndTransactionRequestHeader
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.message.message_id import decode_offset_id
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_PREPARED
from skyrocket.protocol.system_names import HALF_TOPIC, TOOLS_GROUP
from skyrocket.spark.options.sink_options import SinkOptions
from skyrocket.spark.sink.queue_scan import master_address
from skyrocket.spark.sink.sender import make_delivery

log = logging.getLogger(__name__)

_POLL_S: Final = 0.02


class Barrier:
    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session = session
        self._options = options
        self._group = options.wire(options.group)
        self._delivery = make_delivery(session, options)
        self._offsets = QueueOffsets(session, TOOLS_GROUP)
        self._ids = new_id_factory(session.address)

    async def wait(self, queue: Queue, half_offset: int | None = None) -> None:
        """Wait until consumers can read everything that the broker of this queue stored before a half message.

        `half_offset` is that message's offset in the queue of half messages. Without one, send a new half message, and roll it
        back in the end.
        """
        half_queue = Queue(HALF_TOPIC, queue.broker_name, 0)
        if half_offset is not None:
            await self.wait_for(half_queue, half_offset)
            return
        receipt = await self._send_half_message(queue)
        try:
            await self.wait_for(half_queue, receipt.queue_offset)
        finally:
            await self._roll_back(receipt)

    async def wait_for(self, queue: Queue, offset: int) -> None:
        """Wait until this queue, and so every queue of its broker, has all messages up to the one at this offset."""
        deadline_ms = self._session.now_ms() + self._options.cluster.retry_ms
        while True:
            try:
                if await self._offsets.max_offset(queue) > offset:
                    return
            except BrokerError as error:
                log.warning("Broker %s does not say how far its queues are behind its log: %s", queue.broker_name, error)
                return  # settleTime has to suffice
            if self._session.now_ms() > deadline_ms:
                raise TimedOutError(f"The consume queues of broker {queue.broker_name} stay behind its commit log.")
            await asyncio.sleep(_POLL_S)

    async def _send_half_message(self, queue: Queue) -> Receipt:
        message_id = self._ids.next(time.time_ns() // 1_000_000)
        properties = {p.UNIQUE_KEY: message_id, p.WAIT: "true", p.TRANSACTION_PREPARED: "true", p.PRODUCER_GROUP: self._group}
        text = encode_properties(properties).decode()
        outgoing = SendRequest(queue.topic, RequestCode.SEND_MESSAGE_V2, message_id, text, b"-", sys_flag=TRANSACTION_PREPARED)
        deadline_ms = self._session.now_ms() + self._options.cluster.retry_ms
        try:
            return await self._delivery.attempt(outgoing, deadline_ms, lambda _: queue)
        except BrokerError:
            raise
        except ClientError as error:
            raise TimedOutError(f"The broker of {queue} accepts no half message: {error}") from error

    async def _roll_back(self, sent: Receipt) -> None:
        """Roll the barrier's half message back. Otherwise its broker would look for its producer, and report it as given up."""
        header = EndTransactionRequestHeader(
            topic=sent.queue.topic,
            producer_group=self._group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=decode_offset_id(sent.offset_id).physical_offset,
            commit_or_rollback=Outcome.ROLLBACK.value,
            from_transaction_check=False,
            msg_id=sent.message_id,
            rpc_broker_name=sent.queue.broker_name,
        )
        try:
            address = await master_address(self._session, sent.queue)
            await self._session.request_ok(address, RequestCode.END_TRANSACTION, header)
        except ClientError as error:
            log.info("A half message was not rolled back; broker %s will drop it: %s", sent.queue.broker_name, error)
