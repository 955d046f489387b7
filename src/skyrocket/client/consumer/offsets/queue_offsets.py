"""Offset requests to brokers: the bounds of a queue, the offset at a time, and the committed offset of a group."""

from __future__ import annotations

from skyrocket.client.errors import BrokerError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.command import Command
from skyrocket.protocol.header import Header
from skyrocket.protocol.headers import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_OFFSET = "offset"


class QueueOffsets:
    """Fetches and commits offsets for one group. Queues carry the topic name as on the wire."""

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._group = group

    async def min_offset(self, queue: Queue) -> int:
        """Fetch the offset of the first message."""
        header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, rpc_broker_name=queue.broker_name)
        return await self._fetch(queue, RequestCode.GET_MIN_OFFSET, header)

    async def max_offset(self, queue: Queue) -> int:
        """Fetch the offset after the last message."""
        header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, rpc_broker_name=queue.broker_name)
        return await self._fetch(queue, RequestCode.GET_MAX_OFFSET, header)

    async def offset_at(self, queue: Queue, time_ms: int) -> int:
        """Fetch the offset of the first message that was stored at this time or later."""
        header = SearchOffsetRequestHeader(
            topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms, rpc_broker_name=queue.broker_name
        )
        return await self._fetch(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)

    async def committed_offset(self, queue: Queue) -> int | None:
        """Fetch the group's committed offset. None: the broker has none for this group."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id, rpc_broker_name=queue.broker_name
        )
        try:
            return await self._fetch(queue, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    async def commit(self, queue: Queue, offset: int, *, timeout_ms: int | None = None) -> None:
        """Commit the group's offset, and wait for the broker's response.

        A broker that is connected has `timeout_ms` to answer, if given. One that is away gets as long as for any request.
        """
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            rpc_broker_name=queue.broker_name,
        )
        address = await self._address(queue)
        if self._session.dialer.open_connection(address) is None:
            timeout_ms = None
        await self._session.request_ok(address, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_ms=timeout_ms)

    async def _fetch(self, queue: Queue, code: int, header: Header) -> int:
        address = await self._address(queue)
        answer: Command = await self._session.request_ok(address, code, header)
        try:
            return int(answer.fields[_OFFSET])
        except (KeyError, ValueError) as error:
            raise BrokerError(answer.code, f"the response has no offset of {queue}.", address) from error

    async def _address(self, queue: Queue) -> str:
        address = self._session.routes.any_address(queue.broker_name)
        if address is None:
            await self._session.route(queue.topic)
            address = self._session.routes.any_address(queue.broker_name)
        if address is None:
            raise UnreachableError(f"No nameserver has an address of broker {queue.broker_name}, which holds {queue}.")
        return address
