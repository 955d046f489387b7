"""Giving a message back: the broker delivers it again later, or puts it among the group's dead letters.

The broker that has the message is asked to do it, so the body does not travel. Where that fails, the message is sent to the
group's retry topic like any other, which any broker of that topic takes; properties say what it is.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Final

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
FIRST_RETRY_LEVEL: Final = 3  # the delay level of the first retry; each further one is a level higher
DEAD_LETTER_LEVEL: Final = -1  # asked for instead of a delay: no more retries
_DROPPED: Final = (p.TRANSACTION_PREPARED, p.RECONSUME_TIME, p.MAX_RECONSUME_TIMES, p.MIN_OFFSET, p.MAX_OFFSET)


class SendingBack:
    def __init__(self, session: Session, group: str, retries_max: int | None) -> None:
        """`retries_max`: after so many the message is a dead letter. None: what the broker says for the group, 16 as a rule."""
        self._session = session
        self._group = group
        self._retries_max = retries_max

    async def send_back(self, message: Received, delay_level: int = 0) -> bool:
        """Whether it will come again. Level 0: the broker's choice, longer each time; below: a dead letter at once."""
        try:
            await self._ask(message, delay_level)
        except ClientClosedError:
            return False
        except ClientError as error:
            log.warning("Message %s could not be given back to its broker, and is sent anew: %s", message.message_id, error)
            return await self.send_anew(message, self._retries_max)
        return True

    async def _ask(self, message: Received, delay_level: int) -> None:
        record, session = message.record, self._session
        address = session.routes.address(message.broker_name)
        if address is None:
            raise UnreachableError(f"Broker {message.broker_name} has no master at present.")
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

    async def send_anew(self, message: Received, retries_max: int | None) -> bool:
        """To the retry topic, as a new message. The broker makes it a dead letter when it was retried often enough."""
        topic = retry_topic(self._group)
        try:
            route = await self._session.route_to_write(topic, timeout_ms=SEND_BACK_MS)
            queue = random.choice(route.to_write)  # noqa: S311 — no secret
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
        properties = {name: value for name, value in message.properties.items() if name not in _DROPPED}
        properties.setdefault(p.ORIGIN_MESSAGE_ID, message.message_id)
        properties[p.RETRY_TOPIC] = with_namespace(self._session.options.namespace, message.topic)
        properties[p.DELAY_LEVEL] = str(FIRST_RETRY_LEVEL + record.reconsume_times)
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
