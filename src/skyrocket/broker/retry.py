"""Messages that a consumer could not handle: they come to its group again, each time later, and in the end lie among its dead
letters.

    36 (consumer sends back) ─┬─ may be tried again ──▶ delay level 3 + times tried ──▶ %RETRY%group
    send to %RETRY%group     ─┘
                               └─ tried often enough ──▶ %DLQ%group, where it stays

A client asks with 36, which names the message by its place in the log. Where that fails, and where it consumes in order, it
sends the message itself to its group's retry topic, and says in the header how often it was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import randrange
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from skyrocket.broker.context import BrokerContext
from skyrocket.broker.errors import TableError
from skyrocket.broker.send.contributors import Contributor
from skyrocket.broker.send.internal_writer import InternalWriter
from skyrocket.broker.send.parked_answers import ConfirmedAnswers
from skyrocket.broker.settings import BrokerSettings
from skyrocket.broker.tables.queue_locks import QueueLockTable
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfig
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
from skyrocket.store.message_store import MessageStore

FIRST_LEVEL: Final = 3
DEAD_LETTER_QUEUES: Final = 1


class Groups(Protocol):
    def for_consumer(self, group: str) -> SubscriptionGroupConfig | None: ...


class Topics(Protocol):
    def create_for_group(self, topic: str, queues: int, *, sys_flag: int = 0) -> TopicConfig: ...


class Delays(Protocol):
    def delayed(self, record: Record, properties: dict[str, str], level: int) -> Record: ...


# What is to be done with a message ------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    is_dead: bool
    level: int  # that it waits at, if it is not


def judge_sent_back(tried: int, limit: int, asked_level: int) -> Verdict:
    """By 36: `tried` is how often it came before this time. A consumer may ask for a level, or (negative) for the end of it."""
    if tried >= limit or asked_level < 0:
        return Verdict(True, 0)
    return Verdict(False, asked_level or FIRST_LEVEL + tried)


def is_dead_when_sent(tried: int, limit: int, consumed_in_order: bool) -> bool:
    """By a send: `tried` counts this time too. Whoever consumes in order waits with a message itself, and sends it when it has
    given up."""
    return tried > limit or consumed_in_order


def sent_back(record: Record, properties: dict[str, str], topic: str, queue_id: int, store_host: bytes) -> Record:
    """The message on its way to another try; `properties` are changed to those that it has then. Where it first came from, and
    its first id, it keeps for good."""
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

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        locks: QueueLockTable,
        delays: Delays,
        internal_writer: InternalWriter,
        answers: ConfirmedAnswers,
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        now_ms: Callable[[], int],
        one_of: Callable[[int], int] = randrange,
        on_sent_back: Callable[[str, str], None] = lambda _group, _topic: None,
    ) -> None:
        """`now_ms` is the clock of the locks; `one_of` chooses a queue; `on_sent_back` counts, by group and first topic."""
        self._store = store
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._delays = delays
        self._internal_writer = internal_writer
        self._answers = answers
        self._settings = settings
        self._store_host = store_host
        self._now_ms = now_ms
        self._one_of = one_of
        self._on_sent_back = on_sent_back

    def register(self, router: Router) -> None:
        self._router = router
        router.add_group([RequestCode.CONSUMER_SEND_MSG_BACK], self.handle)

    # --- 36

    def handle(self, commands: Sequence[Command], connection: Connection) -> None:
        """All that a read event brought, with one append."""
        accepted: list[Command] = []
        records: list[Record] = []
        for command in commands:
            try:
                record = self._accept(command)
            except (RefusedError, TableError, ProtocolError, StoreError) as error:
                self._router.refuse(connection, command, error)
                continue
            accepted.append(command)
            if record is not None:
                records.append(record)
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
                self._answers.send(position, connection, command, answer)

    def _accept(self, command: Command) -> Record | None:
        """The record to store; None when the group wants none. RefusedError says why not."""
        header = command.header(ConsumerSendMsgBackRequestHeader)
        settings = self._settings()
        group = self._group(header.group)
        if not settings.permission & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} takes no messages.")
        if group.retry_queue_nums <= 0:
            return None
        sys_flag = TOPIC_UNIT_SUB if header.unit_mode else 0
        topic = self._topics.create_for_group(retry_topic(header.group), group.retry_queue_nums, sys_flag=sys_flag)
        if not topic.perm & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{topic.topic_name}' takes no messages.")
        record = self._store.reading.record_at(header.offset) if header.offset >= 0 else None
        if record is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"There is no message at {header.offset}: it may be gone.")
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        verdict = judge_sent_back(record.reconsume_times, limit, header.delay_level)
        properties = decode_properties(record.properties)
        if verdict.is_dead:
            dead = self._topics.create_for_group(dead_letter_topic(header.group), DEAD_LETTER_QUEUES)
            queue_id = self._one_of(DEAD_LETTER_QUEUES)
            stored = sent_back(record, properties, dead.topic_name, queue_id, self._store_host)
            properties[DELAY_LEVEL] = "0"
        else:
            # A topic made when the group had fewer queues is read only there.
            queue_id = self._one_of(max(1, min(group.retry_queue_nums, topic.read_queue_nums)))
            back = sent_back(record, properties, topic.topic_name, queue_id, self._store_host)
            stored = self._delays.delayed(back, properties, verdict.level)
        self._on_sent_back(header.group, properties[RETRY_TOPIC])
        return replace(stored, properties=encode_properties(properties), magic=magic_for(stored.topic))

    def _group(self, name: str) -> SubscriptionGroupConfig:
        group = self._groups.for_consumer(name)
        if group is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"There is no group '{name[:160]}'.")
        return group

    # --- a send to a retry topic

    def redirect(self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        """Redirect a message that was tried often enough to the dead-letter topic of its group."""
        name = record.topic.removeprefix(RETRY_PREFIX)
        group = self._group(name)
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        if not is_dead_when_sent(record.reconsume_times, limit, self._locks.is_locked(name, self._now_ms())):
            return None
        dead = self._topics.create_for_group(dead_letter_topic(name), DEAD_LETTER_QUEUES)
        properties[DELAY_LEVEL] = "-1"
        return replace(record, topic=dead.topic_name, queue_id=self._one_of(DEAD_LETTER_QUEUES))


def install(context: BrokerContext, delays: Delays) -> None:
    """Register the request that sends a message back (36), and the redirect of sends to retry topics."""
    retry = Retry(
        context.store,
        context.topics,
        context.groups,
        context.locks,
        delays,
        context.internal_writer,
        context.answers,
        context.settings,
        context.store_host,
        context.now_ms,
        on_sent_back=context.counters.count_send_back,
    )
    retry.register(context.router)
    context.contributors.add(retry)
