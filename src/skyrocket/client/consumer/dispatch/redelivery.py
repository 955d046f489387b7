"""Redelivery: has the broker deliver a message again later, or put it among the group's dead letters.

The broker that stores the message is asked first, so the body does not travel. If that fails, the message is sent to the group's
retry topic as a new message, which any broker of that topic accepts; its properties name the original.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from skyrocket.chance import CHANCE
from skyrocket.client.consumer.dispatch.retry_delay import retry_delay_level
from skyrocket.client.errors import ClientClosedError, ClientError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.client.session.namespaces import with_namespace
from skyrocket.client.session.session import DEFAULT_TOPIC_QUEUES, Session
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import DEFAULT_TOPIC, INNER_PRODUCER_GROUP, retry_topic

log = logging.getLogger(__name__)

SEND_BACK_MS: Final = 5_000
_REMOVED_PROPERTIES: Final = (p.TRANSACTION_PREPARED, p.RECONSUME_TIME, p.MAX_RECONSUME_TIMES, p.MIN_OFFSET, p.MAX_OFFSET)


class Redelivery:
    """Sends messages of one group back."""

    def __init__(self, session: Session, group: str, retries_max: int | None) -> None:
        """After `retries_max` retries a message becomes a dead letter. None: the broker's setting of the group, 16 by default."""
        self._session = session
        self._group = group
        self._retries_max = retries_max

    async def send_back(self, message: Received, delay_level: int = 0) -> bool:
        """Have a message delivered again. Returns whether a broker accepted it.

        With level 0 the broker chooses the delay, longer with each retry. A negative level makes the message a dead letter.
        """
        try:
            await self._ask_broker(message, delay_level)
        except ClientClosedError:
            return False
        except ClientError as error:
            log.warning(
                "Message %s could not be sent back to its broker, and goes to the retry topic: %s", message.message_id, error
            )
            return await self.send_to_retry_topic(message, self._retries_max)
        return True

    async def _ask_broker(self, message: Received, delay_level: int) -> None:
        record, session = message.record, self._session
        address = session.routes.address(message.broker_name)
        if address is None:
            raise UnreachableError(f"Broker {message.broker_name} has no master now.")
        header = ConsumerSendMsgBackRequestHeader(
            offset=record.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=record.topic,
            max_reconsume_times=self._retries_max,
            rpc_broker_name=message.broker_name,
        )
        await session.request_ok(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_ms=SEND_BACK_MS)

    async def send_to_retry_topic(self, message: Received, retries_max: int | None) -> bool:
        """Send a copy of a message to the group's retry topic. Returns whether a broker accepted it.

        The broker makes the copy a dead letter if the message has had `retries_max` retries.
        """
        topic = retry_topic(self._group)
        try:
            route = await self._session.route_to_write(topic, timeout_ms=SEND_BACK_MS)
            queue = CHANCE.choice(route.to_write)
            address = self._session.routes.address(queue.broker_name) or ""
            header = self._header(message, queue, retries_max)
            await self._session.request_ok(
                address, RequestCode.SEND_MESSAGE_V2, header, message.record.body, timeout_ms=SEND_BACK_MS
            )
        except ClientError as error:
            log.warning("Message %s could not be sent to %s: %s", message.message_id, topic, error)
            return False
        return True

    def _header(self, message: Received, queue: Queue, retries_max: int | None) -> SendMessageRequestHeaderV2:
        record = message.record
        properties = {name: value for name, value in message.properties.items() if name not in _REMOVED_PROPERTIES}
        properties.setdefault(p.ORIGIN_MESSAGE_ID, message.message_id)
        properties[p.RETRY_TOPIC] = with_namespace(self._session.options.namespace, message.topic)
        properties[p.DELAY_LEVEL] = str(retry_delay_level(record.reconsume_times))
        return SendMessageRequestHeaderV2(
            producer_group=INNER_PRODUCER_GROUP,
            topic=queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=DEFAULT_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=record.sys_flag & ~TRANSACTION_MASK,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=record.flag,
            properties="".join(f"{name}{p.NAME_END}{value}{p.VALUE_END}" for name, value in properties.items()),
            reconsume_times=record.reconsume_times + 1,
            unit_mode=False,
            max_reconsume_times=retries_max,
            batch=False,
            broker_name=queue.broker_name,
        )
