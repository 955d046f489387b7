"""Messages, for an administrator: found by key, id or place, or simply read. Nobody's offset moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.offsets import Offsets
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start, moment_ms
from skyrocket.client.consumer.pull.pull_policy import Outcome
from skyrocket.client.consumer.pull.pull_request import PullAnswer, pull_answer
from skyrocket.client.consumer.subscription import TAG, Expression, Subscription, subscription
from skyrocket.client.errors import BrokerError, ConfigurationError, NotFoundError
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import IdError, RecordError
from skyrocket.protocol.headers import PullMessageRequestHeader, QueryMessageRequestHeader, ViewMessageRequestHeader
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.message_id import OffsetId, decode_offset_id
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION
from skyrocket.protocol.system_names import TOOLS_GROUP

FOUND_MAX: Final = 64  # of one query; brokers do not give more
_ENDS_MS: Final = (0, 2**63 - 1)
_LIMITS: Final = ConsumerLimits()


class Messages:
    def __init__(self, brokers: Brokers, offsets: Offsets) -> None:
        self._brokers = brokers
        self._offsets = offsets

    # --- found

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        most: int = FOUND_MAX,
    ) -> list[Received]:
        """Those of a topic that carry this key, oldest first: the newest `most` of each broker, and at most 64."""
        found = await self._query(topic, key, since, until, most, unique=False)
        return [message for message in found if key in message.keys][-most:]

    async def by_unique_id(self, topic: str, message_id: str) -> list[Received]:
        """Those with this unique id: one, or more where it was sent again after its answer was lost. None is NotFoundError."""
        found = await self._query(topic, message_id, None, None, FOUND_MAX, unique=True)
        if not found:
            raise NotFoundError(f"No message of topic '{topic}' has the id {message_id}.")
        return found

    async def _query(
        self, topic: str, key: str, since: datetime | int | None, until: datetime | int | None, most: int, *, unique: bool
    ) -> list[Received]:
        if not key.strip() or not 0 < most <= FOUND_MAX:
            raise ConfigurationError(f"A query has a key, and asks for 1 to {FOUND_MAX} messages.")
        header = QueryMessageRequestHeader(
            topic=self._brokers.wire(topic),
            key=key,
            max_num=most,
            begin_timestamp=_ENDS_MS[0] if since is None else moment_ms(since),
            end_timestamp=_ENDS_MS[1] if until is None else moment_ms(until),
            unique_key_query=unique or None,
        )
        addresses = await self._brokers.of_topic(topic)

        async def ask(name: str) -> list[Received]:
            answer = await self._ask(addresses[name], Command(RequestCode.QUERY_MESSAGE, fields=header.to_fields()))
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            return self._received(answer, name, addresses[name])

        answers = await self._brokers.each(list(addresses), ask)
        return sorted((message for found in answers for message in found), key=_stored)

    async def by_offset_id(self, offset_id: str) -> Received:
        """The one that lies there. The id says at which broker; it must be one that the nameservers know."""
        place = _place(offset_id)
        address = host_text(place.host)
        brokers = {broker.address: broker.broker_name for broker in await self._brokers.all()}
        if address not in brokers:
            raise NotFoundError(f"Id {offset_id} is of a message at {address}, where the nameservers know no broker.")
        header = ViewMessageRequestHeader(offset=place.physical_offset)
        answer = await self._ask(address, Command(RequestCode.VIEW_MESSAGE_BY_ID, fields=header.to_fields()))
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
            raise BrokerError(answer.code, answer.remark or "", address)
        found = _at(place, answer.body) if answer.code == ResponseCode.SUCCESS else None
        if found is None:
            raise NotFoundError(f"{address} has no message with the id {offset_id}.")
        return self._message(found, brokers[address])

    async def by_offset(self, queue: Queue, offset: int) -> Received:
        """The one at this offset of this queue. NotFoundError when there is none."""
        address = await self._brokers.address_of(queue)
        pulled = await self._pull(address, queue, offset, EVERY_TAG, 1)
        for message in self._unpacked(pulled.records, queue.broker_name, address):
            if message.queue_offset == offset:
                return message
        raise NotFoundError(f"There is no message at offset {offset} in {queue}.")

    # --- read

    async def read(self, topic: str, *, start: Start = "first", expression: Expression = EVERY_TAG) -> AsyncIterator[Received]:
        """What is in the topic's queues now, queue by queue, each in order; with `expression` only the tags (or SQL92) wanted."""
        begins = await self._offsets.at(topic, start)
        ends = await self._offsets.at(topic, "last")
        for queue, begin in begins.items():
            async for message in self._read(queue, begin, ends[queue], expression):
                yield message

    async def peek(self, topic: str, *, most: int = 10, expression: Expression = EVERY_TAG) -> list[Received]:
        """The newest of a topic, oldest first; at most so many. Only the last `most` offsets of each queue are looked at."""
        begins, ends = await self._offsets.at(topic, "first"), await self._offsets.at(topic, "last")
        found: list[Received] = []
        for queue, end in ends.items():
            found += [one async for one in self._read(queue, max(begins[queue], end - most), end, expression)]
        return sorted(found, key=_stored)[-most:]

    async def _read(self, queue: Queue, offset: int, end: int, expression: Expression) -> AsyncIterator[Received]:
        address = await self._brokers.address_of(queue) if offset < end else ""
        wanted = subscription(queue.topic, expression, 0)
        while offset < end:
            pulled = await self._pull(address, queue, offset, expression, min(_LIMITS.pull_messages, end - offset))
            for message in wanted.wanted(self._unpacked(pulled.records, queue.broker_name, address)):
                if message.queue_offset >= end:
                    return
                yield message
            if pulled.next_offset <= offset:  # nothing is there, whatever the offsets said
                return
            offset = pulled.next_offset

    async def _pull(self, address: str, queue: Queue, offset: int, expression: Expression, count: int) -> PullAnswer:
        wanted: Subscription = subscription(queue.topic, expression, 0)
        if wanted.kind != TAG:
            raise ConfigurationError("A tool can only choose by tags: brokers filter by SQL92 for members of a group.")
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=self._brokers.wire(queue.topic),
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=wanted.expression,
            sub_version=0,
            expression_type=wanted.kind,
            max_msg_bytes=_LIMITS.pull_bytes,
            rpc_broker_name=queue.broker_name,
        )
        answer = await self._ask(address, Command(RequestCode.PULL_MESSAGE, fields=header.to_fields()))
        pulled = pull_answer(answer, address)
        return pulled if pulled.outcome is Outcome.FOUND else pulled._replace(records=b"")

    # ---

    async def _ask(self, address: str, command: Command) -> Command:
        return await self._brokers.session.request(address, command)

    def _received(self, answer: Command, broker_name: str, address: str) -> list[Received]:
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return self._unpacked(answer.body, broker_name, address)

    def _unpacked(self, records: bytes, broker_name: str, address: str) -> list[Received]:
        try:
            return [self._message(record, broker_name) for record in iterate_records(records)]
        except RecordError as error:
            raise BrokerError(ResponseCode.SUCCESS, f"its messages cannot be read: {error}", address) from error

    def _message(self, record: Record, broker_name: str) -> Received:
        message = Received(record, broker_name=broker_name)
        message.topic = self._brokers.user(message.properties.get(RETRY_TOPIC, record.topic))
        return message


def _stored(message: Received) -> tuple[int, int]:
    """Oldest first; those of one moment as they lie at their broker."""
    return message.stored_ms, message.record.physical_offset


def _at(place: OffsetId, body: bytes) -> Record | None:
    """The record that was asked for. Apache's brokers answer with whatever bytes lie there, be they a message or not."""
    try:
        record = next(iter(iterate_records(body)), None)
    except RecordError:
        return None
    return record if record is not None and record.physical_offset == place.physical_offset else None


def _place(offset_id: str) -> OffsetId:
    try:
        return decode_offset_id(offset_id)
    except IdError as error:
        raise ConfigurationError(str(error)) from error
