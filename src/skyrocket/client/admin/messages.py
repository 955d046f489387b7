"""Administration of messages: find them by key, id or offset, or read a topic. No consumer offset changes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Final

from skyrocket.client.admin.brokers import Brokers
from skyrocket.client.admin.follow import FollowStep, TopicFollower
from skyrocket.client.admin.offsets import OffsetAdmin
from skyrocket.client.admin.results import TraceStep
from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.offsets.start_position import Start, to_epoch_ms
from skyrocket.client.consumer.pull.pull_policy import PullStatus
from skyrocket.client.consumer.pull.pull_request import PullResult, decode_pull_response
from skyrocket.client.consumer.subscription import TAG, Expression, make_subscription
from skyrocket.client.errors import BrokerError, ClientError, ConfigurationError, NotFoundError
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.command import Command
from skyrocket.protocol.errors import IdError, RecordError
from skyrocket.protocol.headers import (
    ConsumerSendMsgBackRequestHeader,
    PullMessageRequestHeader,
    QueryMessageRequestHeader,
    ViewMessageRequestHeader,
)
from skyrocket.protocol.hosts import host_text
from skyrocket.protocol.message.message_id import OffsetId, decode_offset_id
from skyrocket.protocol.message.properties import RETRY_TOPIC
from skyrocket.protocol.message.record import Record, iterate_records
from skyrocket.protocol.message.tags import EVERY_TAG
from skyrocket.protocol.message.trace import decode_trace, keys_of
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_SUBSCRIPTION, PULL_SUSPEND
from skyrocket.protocol.system_names import DEAD_LETTER_PREFIX, TOOLS_GROUP, TRACE_TOPIC

QUERY_MESSAGES_MAX: Final = 64  # in one query; brokers return no more
_TIME_RANGE_MS: Final = (0, 2**63 - 1)
_LIMITS: Final = ConsumerLimits()
_RETRY_LEVEL: Final = 1  # the shortest delay: a second, unless messageDelayLevel says otherwise


class MessageAdmin:
    """Messages of a cluster."""

    def __init__(self, brokers: Brokers, offsets: OffsetAdmin) -> None:
        self._brokers = brokers
        self._offsets = offsets

    # --- find

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        most: int = QUERY_MESSAGES_MAX,
    ) -> list[Received]:
        """Find the newest messages of a topic with this key, oldest first. `most` is at most 64."""
        found = await self._query(topic, key, since, until, most, unique=False)
        return [message for message in found if key in message.keys][-most:]

    async def trace(self, message_id: str, *, topic: str = TRACE_TOPIC, most: int = QUERY_MESSAGES_MAX) -> list[TraceStep]:
        """Find what clients wrote to the message trace about a message, oldest first, by its unique id or one of its keys.

        `topic` is the trace topic, which has no namespace. `most` bounds the trace messages that are read.
        """
        found = await self._query(topic, message_id, None, None, most, unique=False)
        steps = [
            TraceStep(row, message.born_host)
            for message in found
            for row in decode_trace(message.body.decode(errors="replace"))
            if message_id in keys_of(row)
        ]
        return sorted(steps, key=lambda step: step.row.time_ms)

    async def by_unique_id(self, topic: str, message_id: str) -> list[Received]:
        """Find the messages with this unique id. A producer's retry may have stored a message more than once.

        Raises NotFoundError if there is none.
        """
        found = await self._query(topic, message_id, None, None, QUERY_MESSAGES_MAX, unique=True)
        if not found:
            raise NotFoundError(f"Topic '{topic}' has no message with id {message_id}.")
        return found

    async def _query(
        self, topic: str, key: str, since: datetime | int | None, until: datetime | int | None, most: int, *, unique: bool
    ) -> list[Received]:
        if not key.strip() or not 0 < most <= QUERY_MESSAGES_MAX:
            raise ConfigurationError(
                f"A query needs a key and a limit of 1 to {QUERY_MESSAGES_MAX} messages, not {key!r} and {most}."
            )
        header = QueryMessageRequestHeader(
            topic=self._brokers.to_wire(topic),
            key=key,
            max_num=most,
            begin_timestamp=_TIME_RANGE_MS[0] if since is None else to_epoch_ms(since),
            end_timestamp=_TIME_RANGE_MS[1] if until is None else to_epoch_ms(until),
            unique_key_query=unique or None,
        )
        addresses = await self._brokers.addresses_of_topic(topic)

        async def ask(name: str) -> list[Received]:
            answer = await self._brokers.session.request(
                addresses[name], Command(RequestCode.QUERY_MESSAGE, fields=header.to_fields())
            )
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            return self._decode_response(answer, name, addresses[name])

        answers = await self._brokers.for_each(list(addresses), ask)
        return sorted((message for found in answers for message in found), key=_storage_order)

    async def by_offset_id(self, offset_id: str) -> Received:
        """Find a message by its offset id. The id has the address of its broker, which must be registered at a nameserver."""
        position = _decode_offset_id(offset_id)
        address = host_text(position.host)
        brokers = {broker.address: broker.broker_name for broker in await self._brokers.list_brokers()}
        if address not in brokers:
            raise NotFoundError(f"Id {offset_id} belongs to broker {address}, which is registered at no nameserver.")
        header = ViewMessageRequestHeader(offset=position.physical_offset)
        answer = await self._brokers.session.request(address, Command(RequestCode.VIEW_MESSAGE_BY_ID, fields=header.to_fields()))
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR):
            raise BrokerError(answer.code, answer.remark or "", address)
        found = _record_at(position, answer.body) if answer.code == ResponseCode.SUCCESS else None
        if found is None:
            raise NotFoundError(f"Broker {address} has no message with id {offset_id}.")
        return self._make_message(found, brokers[address])

    async def by_offset(self, queue: Queue, offset: int) -> Received:
        """Find the message at an offset of a queue. Raises NotFoundError if there is none."""
        address = await self._brokers.address_of_queue(queue)
        result = await self._pull(address, queue, offset, EVERY_TAG, 1)
        for message in self._decode_messages(result.records, queue.broker_name, address):
            if message.queue_offset == offset:
                return message
        raise NotFoundError(f"There is no message at offset {offset} in {queue}.")

    # --- change

    async def retry_dead_letter(self, group: str, letter: Received) -> None:
        """Have a dead letter of a group delivered to that group again, once, after a second. Other groups do not get it.

        The letter stays among the dead letters. If the group fails again, the message becomes a dead letter again.
        """
        if not letter.record.topic.startswith(DEAD_LETTER_PREFIX):
            raise ConfigurationError(f"Message {letter.message_id} is no dead letter: it is in topic '{letter.record.topic}'.")
        masters = await self._brokers.masters(brokers=[letter.broker_name])
        header = ConsumerSendMsgBackRequestHeader(
            offset=letter.record.physical_offset,
            group=self._brokers.to_wire(group),
            delay_level=_RETRY_LEVEL,
            origin_msg_id=letter.message_id,
            origin_topic=letter.record.topic,
            max_reconsume_times=letter.reconsume_times + 1,  # with fewer, the broker would take it for dead at once
            rpc_broker_name=letter.broker_name,
        )
        await self._brokers.session.request_ok(masters[letter.broker_name], RequestCode.CONSUMER_SEND_MSG_BACK, header)

    # --- read

    async def read(self, topic: str, *, start: Start = "first", expression: Expression = EVERY_TAG) -> AsyncIterator[Received]:
        """Read the messages that are in a topic now, queue by queue, each in order. `expression` selects by tags."""
        begins = await self._offsets.at(topic, start)
        ends = await self._offsets.at(topic, "last")
        for queue, begin in begins.items():
            async for message in self.read_queue(queue, begin, ends[queue], expression=expression):
                yield message

    async def peek(self, topic: str, *, most: int = 10, expression: Expression = EVERY_TAG) -> list[Received]:
        """Read the newest messages of a topic, oldest first, at most `most`. Looks at the last `most` offsets of each queue."""
        begins, ends = await self._offsets.at(topic, "first"), await self._offsets.at(topic, "last")
        found: list[Received] = []
        for queue, end in ends.items():
            found += [one async for one in self.read_queue(queue, max(begins[queue], end - most), end, expression=expression)]
        return sorted(found, key=_storage_order)[-most:]

    async def read_queue(
        self, queue: Queue, offset: int, end: int, *, expression: Expression = EVERY_TAG
    ) -> AsyncIterator[Received]:
        """Read the messages of one queue from `offset` up to, but not including, `end`. `expression` selects by tags."""
        address = await self._brokers.address_of_queue(queue) if offset < end else ""
        subscription = make_subscription(queue.topic, expression, 0)
        while offset < end:
            result = await self._pull(address, queue, offset, expression, min(_LIMITS.pull_messages, end - offset))
            for message in subscription.filter(self._decode_messages(result.records, queue.broker_name, address)):
                if message.queue_offset >= end:
                    return
                yield message
            if result.next_offset <= offset:  # the broker has no message here, whatever its offsets say
                return
            offset = result.next_offset

    async def follow(
        self,
        topic: str,
        *,
        start: Start = "last",
        expression: Expression = EVERY_TAG,
        queues: Collection[Queue] | None = None,
    ) -> AsyncGenerator[Received]:
        """Yield the messages of a topic from `start` on, and then each one as it arrives, until the caller stops.

        It joins no group and commits no offset. Messages of one queue come in order. Without `queues`, a queue that the topic
        gets later is followed too. A broker that does not answer is asked again.
        """
        begins = await self._offsets.at(topic, start)
        if queues is not None:
            for queue in queues:
                if queue not in begins:
                    raise NotFoundError(f"There is no {queue}. List the queues with: skyrocket topic show {topic}")
            begins = {queue: begins[queue] for queue in queues}

        async def discover() -> Mapping[Queue, int]:
            return await self._offsets.at(topic, "first")

        subscription = make_subscription(topic, expression, 0)
        addresses: dict[Queue, str] = {}

        async def pull(queue: Queue, offset: int) -> FollowStep:
            address = addresses.get(queue) or await self._brokers.address_of_queue(queue)
            try:
                result = await self._pull(address, queue, offset, expression, _LIMITS.pull_messages, hold_ms=_LIMITS.pull_hold_ms)
            except ClientError:
                addresses.pop(queue, None)  # a broker that is started again may have another
                raise
            addresses[queue] = address
            found = list(subscription.filter(self._decode_messages(result.records, queue.broker_name, address)))
            return FollowStep(found, result.next_offset)

        async for message in TopicFollower(pull, None if queues is not None else discover).messages(begins):
            yield message

    async def _pull(
        self, address: str, queue: Queue, offset: int, expression: Expression, count: int, *, hold_ms: int = 0
    ) -> PullResult:
        """Pull a queue. With `hold_ms`, the broker holds the request that long while there is no message."""
        subscription = make_subscription(queue.topic, expression, 0)
        if subscription.kind != TAG:
            raise ConfigurationError(
                "An admin client can select messages only by tags: brokers apply SQL92 expressions only for members of a group."
            )
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=self._brokers.to_wire(queue.topic),
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=PULL_SUBSCRIPTION | (PULL_SUSPEND if hold_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            subscription=subscription.expression,
            sub_version=0,
            expression_type=subscription.kind,
            max_msg_bytes=_LIMITS.pull_bytes,
            rpc_broker_name=queue.broker_name,
        )
        timeout_ms = self._brokers.session.limits.request_ms + hold_ms
        command = Command(RequestCode.PULL_MESSAGE, fields=header.to_fields())
        answer = await self._brokers.session.request(address, command, timeout_ms=timeout_ms)
        result = decode_pull_response(answer, address)
        return result if result.status is PullStatus.FOUND else result._replace(records=b"")

    # ---

    def _decode_response(self, answer: Command, broker_name: str, address: str) -> list[Received]:
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address)
        return self._decode_messages(answer.body, broker_name, address)

    def _decode_messages(self, records: bytes, broker_name: str, address: str) -> list[Received]:
        try:
            return [self._make_message(record, broker_name) for record in iterate_records(records)]
        except RecordError as error:
            raise BrokerError(ResponseCode.SUCCESS, f"the messages cannot be decoded: {error}", address) from error

    def _make_message(self, record: Record, broker_name: str) -> Received:
        message = Received(record, broker_name=broker_name)
        message.topic = self._brokers.to_user(message.properties.get(RETRY_TOPIC, record.topic))
        return message


def _storage_order(message: Received) -> tuple[int, int]:
    """Return the sort key: store time, then position in the commit log."""
    return message.stored_ms, message.record.physical_offset


def _record_at(position: OffsetId, body: bytes) -> Record | None:
    """Decode the requested record. Apache's brokers return the bytes at that position even if they are not a message."""
    try:
        record = next(iter(iterate_records(body)), None)
    except RecordError:
        return None
    return record if record is not None and record.physical_offset == position.physical_offset else None


def _decode_offset_id(offset_id: str) -> OffsetId:
    try:
        return decode_offset_id(offset_id)
    except IdError as error:
        raise ConfigurationError(str(error)) from error
