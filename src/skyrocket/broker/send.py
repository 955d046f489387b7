"""Sends: 10, 310 and 320. All that a read event brought from a connection goes into the store with one append.

    check each → records → one append → [sync flush: wait] → one write with all answers

With sync flush the answers are parked until the horizon has passed their messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from skyrocket.broker.names import NO_SENDING, name_problem
from skyrocket.broker.responses import send_response
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.connection import Connection
from skyrocket.net.router import RefusedError, Router
from skyrocket.protocol.batch import decode_batch, encode_batch_records
from skyrocket.protocol.bodies import TopicConfig
from skyrocket.protocol.command import Command, encode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2, SendMessageResponseHeader
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.properties import (
    CLUSTER,
    DELAY_LEVEL,
    MESSAGE_REGION,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.record import Record, encode_record, magic_for
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PERM_WRITE
from skyrocket.protocol.tags import tags_code
from skyrocket.store.errors import StoreError
from skyrocket.store.message import Placed, Unplaced, index_keys
from skyrocket.store.message_store import MessageStore

SYNC_FLUSH_TIMEOUT_MS = 5_000  # Apache's syncFlushTimeout: then the producer is told that the message is stored, not flushed
PARKED_ANSWERS_MAX = 100_000
_NOT_YET = (DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TRANSACTION_PREPARED)


class Topics(Protocol):
    """What a send needs of the topic table."""

    def get(self, topic: str) -> TopicConfig | None: ...

    def create_on_send(self, topic: str, default_topic: str, queues: int, peer: str) -> TopicConfig | None:
        """The topic, made after the default one if that is allowed; None when it is not."""


@dataclass(slots=True)
class _Sent:
    """A request that was accepted, and its messages."""

    command: Command
    queue_id: int
    unique_key: str
    messages: list[Unplaced]
    waits: bool  # for the flush


class _Parked(NamedTuple):
    """An answer that leaves when everything before `position` is confirmed."""

    position: int
    since_ms: int
    connection: Connection
    command: Command
    answer: bytes


class SendHandler:
    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        settings: Callable[[], BrokerSettings],
        store_host: bytes,
        now_ms: Callable[[], int],
        on_appended: Callable[[], None],
    ) -> None:
        """`on_appended` is called after each append: it wakes whoever waits for messages, and the flusher."""
        self._store = store
        self._topics = topics
        self._settings = settings
        self._store_host = store_host
        self._id_prefix = store_host.hex().upper()
        self._now_ms = now_ms
        self._on_appended = on_appended
        self._parked: deque[_Parked] = deque()
        self._turn = 0  # gives queues to sends that leave the choice to us
        self._router: Router | None = None

    def register(self, router: Router) -> None:
        self._router = router
        codes = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        router.add_group(codes, self.handle)

    # --- a read event's sends

    def handle(self, commands: list[Command], connection: Connection) -> None:
        accepted: list[_Sent] = []
        for command in commands:
            try:
                accepted.append(self._accept(command, connection))
            except (RefusedError, ProtocolError) as error:
                self._refuse(connection, command, error)
        messages = [message for sent in accepted for message in sent.messages]
        if not messages:
            return
        try:
            placed = self._store.append(messages, self._now_ms())
        except StoreError as error:
            for sent in accepted:
                self._refuse(connection, sent.command, error)
            return
        self._answer(accepted, placed, connection)
        self._on_appended()

    def _refuse(self, connection: Connection, command: Command, error: Exception) -> None:
        assert self._router is not None
        if not command.is_oneway:
            connection.send_command(self._router.error_response(command, error))

    def _answer(self, accepted: list[_Sent], placed: list[Placed], connection: Connection) -> None:
        at = 0
        confirmed = self._store.horizon.confirmed
        for sent in accepted:
            places = placed[at : at + len(sent.messages)]
            at += len(places)
            if sent.command.is_oneway:
                continue
            answer = self._success(sent, places)
            position = places[-1].physical_offset + places[-1].size
            if sent.waits and position > confirmed and len(self._parked) < PARKED_ANSWERS_MAX:
                self._parked.append(_Parked(position, self._now_ms(), connection, sent.command, answer))
            else:
                connection.send(answer)

    def _success(self, sent: _Sent, places: list[Placed]) -> bytes:
        settings = self._settings()
        ids = [f"{self._id_prefix}{place.physical_offset:016X}" for place in places]
        message_id = ids[0] if len(ids) == 1 else ",".join(ids)
        trace = "true" if settings.trace_on else "false"
        if sent.command.serialization is Serialization.JSON and (not sent.unique_key or sent.unique_key.isalnum()):
            return send_response(
                sent.command.opaque,
                sent.queue_id,
                places[0].queue_offset,
                message_id.encode(),
                sent.unique_key.encode(),
                settings.region_id.encode(),
                trace.encode(),
            )
        header = SendMessageResponseHeader(
            msg_id=message_id, queue_id=sent.queue_id, queue_offset=places[0].queue_offset, transaction_id=sent.unique_key
        )
        response = sent.command.response(ResponseCode.SUCCESS, header)
        response.fields |= {MESSAGE_REGION: settings.region_id, TRACE_ON: trace}
        return encode_command(response)

    # --- answers that wait for the disk

    def confirmed(self) -> None:
        """The horizon moved: answer those whose messages it has passed."""
        confirmed = self._store.horizon.confirmed
        while self._parked and self._parked[0].position <= confirmed:
            parked = self._parked.popleft()
            parked.connection.send(parked.answer)

    def check_time(self, now_ms: int) -> None:
        """Those who waited too long are told that their message is stored, and not known to be on disk."""
        while self._parked and now_ms - self._parked[0].since_ms > SYNC_FLUSH_TIMEOUT_MS:
            parked = self._parked.popleft()
            remark = "The message is stored; the flush to disk takes too long."
            parked.connection.send_command(parked.command.response(ResponseCode.FLUSH_DISK_TIMEOUT, remark=remark))

    # --- checks

    def _accept(self, command: Command, connection: Connection) -> _Sent:
        header = _header_of(command)
        settings = self._settings()
        config = self._topic(header, connection, settings)
        queue_id = self._queue(header, config)
        if len(command.body) > settings.max_message_bytes:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"A body of {len(command.body)} bytes is larger than the {settings.max_message_bytes} allowed.",
            )
        text = header.properties or ""
        if len(text) > PROPERTIES_BYTES_MAX:
            raise RefusedError(
                ResponseCode.MESSAGE_ILLEGAL, f"Properties of {len(text)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed."
            )
        properties = decode_properties(text)
        for name in _NOT_YET:
            if name in properties and properties[name] not in ("0", "false"):
                raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"Messages with the property {name} are not supported yet.")
        like = Record(
            topic=header.topic,
            body=command.body,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=pack_host(*connection.peer),
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
            magic=magic_for(header.topic),
        )
        waits = self._store.config.sync_flush and properties.get(WAIT) != "false"
        unique_key = properties.get(UNIQUE_KEY, "")
        if command.code == RequestCode.SEND_BATCH_MESSAGE or header.batch:
            return _Sent(command, queue_id, unique_key, _batch(like), waits)
        like.properties = _stored_properties(text, properties, settings)
        message = Unplaced(
            header.topic, queue_id, encode_record(like), tags_code(properties.get(TAGS)), index_keys(properties), header.sys_flag
        )
        return _Sent(command, queue_id, unique_key, [message], waits)

    def _topic(self, header: SendMessageRequestHeader, connection: Connection, settings: BrokerSettings) -> TopicConfig:
        if not settings.permission & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings.broker_name} takes no messages.")
        topic = header.topic
        problem = name_problem(topic)
        if problem is not None:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"The topic's name {problem}.")
        if topic in NO_SENDING:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{topic}' is the broker's own.")
        config = self._topics.get(topic)
        if config is None:
            config = self._topics.create_on_send(
                topic, header.default_topic, header.default_topic_queue_nums, connection.peer_text
            )
        if config is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"Topic '{topic}' does not exist, and topics are not created by sends."
            )
        if not config.perm & PERM_WRITE:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Topic '{topic}' takes no messages.")
        return config

    def _queue(self, header: SendMessageRequestHeader, config: TopicConfig) -> int:
        if header.queue_id < 0:
            self._turn += 1
            return self._turn % config.write_queue_nums
        if header.queue_id >= max(config.write_queue_nums, config.read_queue_nums):
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"Topic '{header.topic}' has {config.write_queue_nums} queues; there is no queue {header.queue_id}.",
            )
        return header.queue_id


def _header_of(command: Command) -> SendMessageRequestHeader:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessageRequestHeader)
    return command.header(SendMessageRequestHeaderV2).to_v1()


def _batch(like: Record) -> list[Unplaced]:
    """The messages of a batch. What the request's own properties say is for the batch as a whole, and is not stored."""
    entries = decode_batch(like.body)
    if not entries:
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "A batch without messages.")
    messages = []
    for entry, record in zip(entries, encode_batch_records(entries, like), strict=True):
        properties = decode_properties(entry.properties)
        keys = index_keys(properties)
        messages.append(Unplaced(like.topic, like.queue_id, record, tags_code(properties.get(TAGS)), keys, like.sys_flag))
    return messages


def _stored_properties(text: str, properties: dict[str, str], settings: BrokerSettings) -> bytes:
    """What the producer said, and what Apache's broker adds to it."""
    added = {
        MESSAGE_REGION: settings.region_id,
        TRACE_ON: "true" if settings.trace_on else "false",
        CLUSTER: settings.cluster_name,
    }
    if MESSAGE_REGION in properties or CLUSTER in properties or TRACE_ON in properties or not text.endswith("\x02"):
        return encode_properties({**properties, **added})
    try:
        stored = text.encode() + encode_properties(added)
    except UnicodeEncodeError as error:
        raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, f"Properties have text that is not Unicode: {error}.") from error
    if len(stored) > PROPERTIES_BYTES_MAX:
        raise RefusedError(
            ResponseCode.MESSAGE_ILLEGAL, f"Properties of {len(stored)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed."
        )
    return stored
