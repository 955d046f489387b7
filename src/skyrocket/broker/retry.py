"""Retry and dead letters: messages that a consumer sends back are delivered again, each time later, and end as dead letters.

    36 (consumer sends back) ─┬─ retries left ────▶ delay level 3 + times consumed ──▶ %RETRY%group
    send to %RETRY%group     ─┘
                               └─ no retries left ─▶ %DLQ%group, where it stays

A consumer sends CONSUMER_SEND_MSG_BACK (36), which names the message by its offset in the log. If that fails, or if it consumes
in order, it sends the message itself to the retry topic of its group, with the number of attempts in the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError, TopicPendingError
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.tables.topics import DEAD_LETTER_QUEUES
from skyrocket.chance import CHANCE
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import SubscriptionGroupConfig
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.headers import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import (
    DELAY_LEVEL,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, magic_for
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PERM_WRITE, TOPIC_UNIT_SUB
from skyrocket.protocol.system_names import RETRY_PREFIX, dead_letter_topic, retry_topic
from skyrocket.store.errors import StoreError

FIRST_LEVEL: Final = 3


class DelayPolicy(Protocol):
    def delay(self, record: Record, properties: dict[str, str], level: int) -> Record: ...


# Decisions ----------------------------------------------------------------------------------------------------------------


class RetryDecision(NamedTuple):
    is_dead: bool
    level: int  # the delay level of the retry


def decide_retry(tried: int, limit: int, asked_level: int) -> RetryDecision:
    """Decide about a message sent back with 36.

    `tried` counts earlier attempts. A consumer may request a level; a negative level means dead.
    """
    if tried >= limit or asked_level < 0:
        return RetryDecision(True, 0)
    return RetryDecision(False, asked_level or FIRST_LEVEL + tried)


def is_dead_on_send(tried: int, limit: int, consumed_in_order: bool) -> bool:
    """Decide about a message sent to a retry topic. `tried` includes this attempt.

    A consumer in order retries locally, and sends a message only after it has given up.
    """
    return tried > limit or consumed_in_order


def make_retry(record: Record, properties: dict[str, str], topic: str, queue_id: int, store_host: bytes) -> Record:
    """Return the record of the next attempt, and change `properties` accordingly.

    Its first topic and its first id never change.
    """
    properties.setdefault(RETRY_TOPIC, record.topic)
    properties[WAIT] = "false"
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = encode_offset_id(record.store_host, record.physical_offset)
    return replace(
        record,
        topic=topic,
        queue_id=queue_id,
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
        prepared_transaction_offset=0,
    )


# Requests -------------------------------------------------------------------------------------------------------------


class Retry(Contributor):
    topic_prefix = RETRY_PREFIX

    def __init__(self, context: BrokerContext, delays: DelayPolicy) -> None:
        self._store = context.store
        self._topics = context.topics
        self._groups = context.groups
        self._locks = context.locks
        self._delays = delays
        self._internal_writer = context.internal_writer
        self._answers = context.answers
        self._settings = context.settings
        self._store_host = context.store_host
        self._now_ms = context.now_ms
        self._counters = context.counters
        self._router = context.router
        self._deferred_sends = context.deferred_sends

    def register(self, router: Router) -> None:
        router.add_group([RequestCode.CONSUMER_SEND_MSG_BACK], self.handle)

    # --- 36

    def handle(self, commands: Sequence[Command], connection: Connection) -> None:
        """Handle all requests of a read event with one append."""
        accepted: list[Command] = []
        records: list[Record] = []
        deferred: list[Command] = []
        for command in commands:
            try:
                self._answers.check_room()
                record = self._accept(command)
            except TopicPendingError:
                deferred.append(command)
                continue
            except (RefusedError, TableError, ProtocolError, StoreError) as error:
                self._router.refuse(connection, command, error)
                continue
            accepted.append(command)
            if record is not None:
                records.append(record)
        if deferred:
            self._deferred_sends.defer(deferred, connection, self.handle)
        try:
            self._internal_writer.write(records)
        except StoreError as error:
            for command in accepted:
                self._router.refuse(connection, command, error)
            return
        position = self._store.horizon.appended
        for command in accepted:
            if not command.is_oneway:
                answer = encode_command(command.response(ResponseCode.SUCCESS))
                self._answers.send(position, connection, answer)

    def _accept(self, command: Command) -> Record | None:
        """Return the record to store, or None when the group has no retry queues. Raise RefusedError for an invalid request."""
        header = command.header(ConsumerSendMsgBackRequestHeader)
        settings = self._settings()
        group = self._group(header.group)
        if not settings.permission & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} is not writable.")
        if group.retry_queue_nums <= 0:
            return None
        sys_flag = TOPIC_UNIT_SUB if header.unit_mode else 0
        name = retry_topic(header.group)
        create = self._topics.create_for_group if name in self._topics else self._topics.create_durably
        topic = create(name, group.retry_queue_nums, sys_flag=sys_flag)
        if not topic.perm & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{topic.topic_name}' is not writable.")
        record = self._store.reading.record_at(header.offset) if header.offset >= 0 else None
        if record is None:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, f"There is no message at offset {header.offset} of the log: it may have been deleted."
            )
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        decision = decide_retry(record.reconsume_times, limit, header.delay_level)
        properties = decode_properties(record.properties)
        if decision.is_dead:
            dead = self._topics.create_durably(dead_letter_topic(header.group), DEAD_LETTER_QUEUES)
            queue_id = CHANCE.randrange(DEAD_LETTER_QUEUES)
            stored = make_retry(record, properties, dead.topic_name, queue_id, self._store_host)
            properties[DELAY_LEVEL] = "0"
            self._counters.count_dead(header.group, properties[RETRY_TOPIC])
        else:
            # Consumers read only these queues of a topic that was created when the group had fewer.
            queue_id = CHANCE.randrange(max(1, min(group.retry_queue_nums, topic.read_queue_nums)))
            back = make_retry(record, properties, topic.topic_name, queue_id, self._store_host)
            stored = self._delays.delay(back, properties, decision.level)
        self._counters.count_send_back(header.group, properties[RETRY_TOPIC])
        return replace(stored, properties=encode_properties(properties), magic=magic_for(stored.topic))

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._groups.for_consumer(name)
        if group is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group '{name[:160]}' does not exist.")
        return group

    # --- a send to a retry topic

    def redirect(self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        """Redirect a message without retries left to the dead-letter topic of its group."""
        name = record.topic.removeprefix(RETRY_PREFIX)
        group = self._group(name)
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        if not is_dead_on_send(record.reconsume_times, limit, self._locks.is_locked(name, self._now_ms())):
            return None
        dead = self._topics.create_durably(dead_letter_topic(name), DEAD_LETTER_QUEUES)
        properties[DELAY_LEVEL] = "-1"
        self._counters.count_dead(name, properties.get(RETRY_TOPIC, record.topic))
        return replace(record, topic=dead.topic_name, queue_id=CHANCE.randrange(DEAD_LETTER_QUEUES))


def install(context: BrokerContext, delays: DelayPolicy) -> None:
    """Register the request that sends a message back (36), and the redirect of sends to retry topics."""
    retry = Retry(context, delays)
    retry.register(context.router)
    context.contributors.add(retry)
