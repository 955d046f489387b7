"""The general path's checks of a send request, and the records that it asks to store.

A send that passes becomes an `AcceptedSend` with encoded records; any other send raises the error to answer with. The broker adds
its properties (region, trace switch, cluster) as Apache's broker does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from skyrocket.broker.names import name_problem
from skyrocket.broker.send.contributors import Contributors
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.batch import decode_batch, encode_batch_records
from skyrocket.protocol.message.properties import (
    CLUSTER,
    DELAY_LEVEL,
    MESSAGE_REGION,
    TAGS,
    TRACE_ON,
    UNIQUE_KEY,
    VALUE_END,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, encode_record, magic_for
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PERM_WRITE, TRANSACTION_MASK
from skyrocket.protocol.system_names import NOT_FOR_PRODUCERS, RETRY_PREFIX
from skyrocket.store.message import AppendRequest, delay_level, index_keys


class SendTopics(Protocol):
    """The part of the topic table that sends use."""

    def get(self, topic: str) -> TopicConfig | None: ...

    def create_on_send(self, topic: str, default_topic: str, queues: int, peer: str) -> TopicConfig | None:
        """Create the topic after the default topic and return it. Return None when that is not allowed."""

    def create_for_group(self, topic: str, queues: int) -> TopicConfig: ...


class AcceptedSend(NamedTuple):
    """A send request that passed the checks, and its messages."""

    command: Command
    queue_id: int
    unique_key: str
    messages: list[AppendRequest]
    waits_for_flush: bool  # with sync flush, the response waits for it
    recall_handle: str | None = None


class SendValidator:
    def __init__(
        self, topics: SendTopics, settings: Callable[[], BrokerSettings], store_host: bytes, contributors: Contributors
    ) -> None:
        self._topics = topics
        self._contributors = contributors
        self._settings = settings
        self._store_host = store_host
        self._next_queue = 0  # counts sends that leave the choice of the queue to the broker
        self._added_for: BrokerSettings | None = None
        self._added = b""  # properties that the broker adds, with these settings

    def accept(self, command: Command, connection: Connection) -> AcceptedSend:
        """Check a send and encode its records. Raise RefusedError or ProtocolError when it is not acceptable."""
        header = _header_of(command)
        settings = self._settings()
        queue_id = self.choose_queue(header, connection)
        text = header.properties or ""
        if len(command.body) > settings.max_message_bytes:
            raise _illegal(
                f"A body of {len(command.body)} bytes is larger than the {settings.max_message_bytes} allowed (maxMessageSize)."
            )
        properties = decode_properties(text)
        _check_properties(text)
        batch = command.code == RequestCode.SEND_BATCH_MESSAGE or bool(header.batch)
        is_claimed = not self._contributors.property_names.isdisjoint(properties) or header.topic.startswith(
            self._contributors.topic_prefixes
        )
        record = Record(
            header.topic,
            command.body,
            b"" if is_claimed or batch else self._stored_properties(text, properties, settings),
            queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=pack_host(*connection.peer),
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
            magic=magic_for(header.topic),
        )
        handle = None
        if batch:
            _check_batch(header.topic, properties)
            messages = _batch(record)
        elif is_claimed:
            stored = properties | added_properties(settings)
            message, handle = self._redirect(header, record, stored)
            messages = [message]
        else:
            messages = [_single(record, properties)]
        waits_for_flush = properties.get(WAIT) != "false"
        return AcceptedSend(command, queue_id, properties.get(UNIQUE_KEY, ""), messages, waits_for_flush, handle)

    def choose_queue(self, header: SendMessageRequestHeaderV2, connection: Connection) -> int:
        """Return the queue that a message goes to. Create the topic if needed; refuse one that accepts no messages."""
        config = self._topics.get(header.topic)
        if config is None or header.topic in NOT_FOR_PRODUCERS:
            config = self._create_topic(header, connection)
        _check_permission(self._settings(), config)
        return self._queue_of(header, config)

    def _redirect(
        self, header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]
    ) -> tuple[AppendRequest, str | None]:
        """Return the message as contributors want it stored, and its recall handle."""
        elsewhere, handle = self._contributors.redirect(header, record, properties)
        elsewhere.properties, elsewhere.magic = encode_properties(properties), magic_for(elsewhere.topic)
        return _single(elsewhere, properties), handle

    def _create_topic(self, header: SendMessageRequestHeaderV2, connection: Connection) -> TopicConfig:
        topic = header.topic
        if problem := name_problem(topic):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"Topic '{topic[:160]}' cannot exist: its name {problem}.")
        if topic in NOT_FOR_PRODUCERS:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{topic}' is a system topic: only the broker writes to it.")
        config = self._topics.create_on_send(topic, header.default_topic, header.default_topic_queue_nums, connection.peer_text)
        if config is None and topic.startswith(RETRY_PREFIX):
            return self._topics.create_for_group(topic, 1)
        if config is None:
            remark = (
                f"Topic '{topic}' does not exist, and a send may not create it. Create it with: skyrocket topic create {topic}"
            )
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, remark)
        return config

    def _queue_of(self, header: SendMessageRequestHeaderV2, config: TopicConfig) -> int:
        if 0 <= header.queue_id < max(config.write_queue_nums, config.read_queue_nums):
            return header.queue_id
        if header.queue_id < 0 < config.write_queue_nums:
            self._next_queue += 1
            return self._next_queue % config.write_queue_nums
        raise RefusedError(
            ResponseCode.INVALID_PARAMETER,
            f"Topic '{header.topic}' has {config.write_queue_nums} queues; there is no queue {header.queue_id}.",
        )

    def _stored_properties(self, text: str, properties: dict[str, str], settings: BrokerSettings) -> bytes:
        """Encode the producer's properties and those that the broker adds, as Apache's broker does."""
        if self._added_for is not settings:
            self._added_for, self._added = settings, encode_properties(added_properties(settings))
        is_regular = text.endswith(VALUE_END) and MESSAGE_REGION not in properties and CLUSTER not in properties
        if not is_regular or TRACE_ON in properties:
            return encode_properties(properties | added_properties(settings))
        try:
            stored = text.encode() + self._added
        except UnicodeEncodeError as error:
            raise _illegal(f"Properties have text that is not Unicode: {error}.") from error
        if len(stored) > PROPERTIES_BYTES_MAX:
            raise _illegal(f"Properties of {len(stored)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed.")
        return stored


def _header_of(command: Command) -> SendMessageRequestHeaderV2:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessageRequestHeader).to_v2()
    return command.header(SendMessageRequestHeaderV2)


def _illegal(sentence: str) -> RefusedError:
    return RefusedError(ResponseCode.MESSAGE_ILLEGAL, sentence)


def _check_permission(settings: BrokerSettings, config: TopicConfig) -> None:
    if not settings.permission & PERM_WRITE:
        raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} accepts no messages (brokerPermission).")
    if not config.perm & PERM_WRITE:
        raise RefusedError(
            ResponseCode.NO_PERMISSION, f"Topic '{config.topic_name}' accepts no messages: it has no write permission."
        )


def _check_properties(text: str) -> None:
    if len(text) > PROPERTIES_BYTES_MAX:
        raise _illegal(f"Properties of {len(text)} characters are more than the {PROPERTIES_BYTES_MAX} bytes allowed.")


def added_properties(settings: BrokerSettings) -> dict[str, str]:
    return {
        MESSAGE_REGION: settings.region_id,
        TRACE_ON: "true" if settings.trace_on else "false",
        CLUSTER: settings.cluster_name,
    }


def _single(record: Record, properties: dict[str, str]) -> AppendRequest:
    code, level = tags_code(properties.get(TAGS)), delay_level(record.topic, properties)
    return AppendRequest(
        record.topic, record.queue_id, encode_record(record), code, index_keys(properties), record.sys_flag, level
    )


def _check_batch(topic: str, properties: dict[str, str]) -> None:
    """Refuse batches that Apache's clients never send.

    Apache's broker accepts a batch with a delay and then loses it, as its messages do not say where they go.
    """
    if topic.startswith(RETRY_PREFIX):
        raise _illegal(f"A batch cannot go to a retry topic such as '{topic}'.")
    if properties.get(DELAY_LEVEL, "0").strip("+-0"):
        raise _illegal("A batch cannot be delayed. Send delayed messages one by one.")


def _batch(like: Record) -> list[AppendRequest]:
    """Return the messages of a batch, each like the record `like`. The request's own properties are not stored."""
    if like.sys_flag & TRANSACTION_MASK:
        raise _illegal("A batch cannot be part of a transaction.")
    entries = decode_batch(like.body)
    if not entries:
        raise _illegal("The batch has no messages.")
    messages = []
    for entry, record in zip(entries, encode_batch_records(entries, like), strict=True):
        properties = decode_properties(entry.properties)
        code = tags_code(properties.get(TAGS))
        messages.append(AppendRequest(like.topic, like.queue_id, record, code, index_keys(properties), like.sys_flag))
    return messages
