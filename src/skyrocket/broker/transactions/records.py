"""The records of transactions, each as Apache 5.5.0 writes it.

half        what a producer sent, kept under RMQ_SYS_TRANS_HALF_TOPIC until its transaction ends
committed   the message itself, in the topic and queue that it was sent to
op          the queue offsets of half messages that have ended, in RMQ_SYS_TRANS_OP_HALF_TOPIC: "17,19,20,"
copy        a half message again, at the end of its queue, because its producer is asked about it, or must not be yet
given up    a half message whose producer never said how it ended, in TRANS_CHECK_MAX_TIME_TOPIC
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from skyrocket.broker.names import name_problem
from skyrocket.broker.send.redirects import Detour, Led, ShortCut, ShortCutOf, way_back
from skyrocket.broker.settings import BrokerSettings
from skyrocket.net.router import RefusedError
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import (
    CHECK_IMMUNITY_TIME,
    DELAY_LEVEL,
    NAME_END,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    VALUE_END,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, encode_record, magic_for
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from skyrocket.store.log.readdress import Address, ReaddressRequest
from skyrocket.store.message import AppendResult, index_keys

QUEUE: Final = 0  # both have one queue

PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"  # on a copy: where the half message was that its producer knows of
_ENDED_TAG = "d"
_SEPARATOR = ","
_OP_PROPERTIES: Final = encode_properties({WAIT: "true", TAGS: _ENDED_TAG})
_OP_ADDRESS: Final = Address.of(OP_TOPIC, QUEUE, tags_code(_ENDED_TAG), index_keys({TAGS: _ENDED_TAG}))
_TRANSACTION_ID: Final = f"{TRANSACTION_ID}{NAME_END}".encode() + MARK + VALUE_END.encode()
_NO_NUMBER: Final = -1
_TIMES: Final = frozenset({TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS})


class Half(NamedTuple):
    """A half message as it was read."""

    record: Record
    properties: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> Half:
        return cls(record, decode_properties(record.properties))

    @property
    def topic(self) -> str:
        """Where it goes when it is committed."""
        return self.properties.get(REAL_TOPIC, "")

    @property
    def queue_id(self) -> int:
        return number(self.properties.get(REAL_QUEUE_ID))

    @property
    def producer_group(self) -> str | None:
        return self.properties.get(PRODUCER_GROUP)

    @property
    def check_times(self) -> int:
        """How often its producer was asked about it."""
        return number(self.properties.get(TRANSACTION_CHECK_TIMES), 0)

    @property
    def immunity(self) -> str | None:
        """The seconds for which its producer wants not to be asked."""
        return self.properties.get(CHECK_IMMUNITY_TIME)

    @property
    def known_as(self) -> int:
        """The offset that its producer knows it by, when this is a copy that its producer was not told of; else -1."""
        return number(self.properties.get(PREPARED_QUEUE_OFFSET))


def number(text: str | None, otherwise: int = _NO_NUMBER) -> int:
    """What a property says, as Java's long; -1 when that is none."""
    if text is None:
        return otherwise
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else _NO_NUMBER


# --- what producers send


def half_detour(settings: Callable[[], BrokerSettings]) -> Detour:
    """For messages with TRAN_MSG."""

    def detour(header: SendMessageRequestHeaderV2, record: Record, properties: dict[str, str]) -> Record | None:
        if properties.get(TRANSACTION_PREPARED, "").lower() != "true":
            return None
        is_delayed = number(properties.get(DELAY_LEVEL), 0) > 0
        if is_delayed and (header.reconsume_times or 0) > 0:
            return None  # sent back by a client before 4.6.1, which leaves the property on
        if settings().reject_transactions:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"Broker {settings().broker_name} takes no transactions.")
        if is_delayed or not _TIMES.isdisjoint(properties):  # Apache's broker takes such a message, and never delivers it
            raise RefusedError(ResponseCode.MESSAGE_ILLEGAL, "A message of a transaction cannot be delayed as well.")
        return half_of(record, properties)

    return detour


def half_short_cut(settings: Callable[[], BrokerSettings]) -> ShortCutOf:
    """The same, for messages of which nothing else is to be said."""

    def short_cut(properties: Mapping[str, str]) -> ShortCut | None:
        if properties[TRANSACTION_PREPARED].lower() != "true" or TRANSACTION_ID in properties or settings().reject_transactions:
            return None
        return ShortCut(HALF_TOPIC, QUEUE, lead, kept_flags=~TRANSACTION_MASK)

    def lead(topic: str, queue_id: int) -> Led:
        return Led(_TRANSACTION_ID + way_back(topic, queue_id))

    return short_cut


def half_of(record: Record, properties: dict[str, str]) -> Record:
    """A message of a transaction as it waits; `properties` are changed to those that are stored with it."""
    if unique := properties.get(UNIQUE_KEY):
        properties[TRANSACTION_ID] = unique
    properties[REAL_TOPIC] = record.topic
    properties[REAL_QUEUE_ID] = str(record.queue_id)
    return replace(record, topic=HALF_TOPIC, queue_id=QUEUE, sys_flag=record.sys_flag & ~TRANSACTION_MASK)


# --- how transactions end


class HalfFacts(NamedTuple):
    """What a half message's properties say to who ends it."""

    producer_group: str | None
    immunity: str | None
    address: Address | None  # of the message when it is committed; None: it does not say

    @classmethod
    def of(cls, properties: dict[str, str]) -> HalfFacts:
        return cls(properties.get(PRODUCER_GROUP), properties.get(CHECK_IMMUNITY_TIME), _own_address(properties))


def _own_address(properties: dict[str, str]) -> Address | None:
    """A committed message still says that it was part of a transaction (TRAN_MSG), as Apache's do."""
    topic, queue_id = properties.get(REAL_TOPIC, ""), number(properties.get(REAL_QUEUE_ID))
    if name_problem(topic) is not None or queue_id < 0:
        return None
    kept = _joined({name: value for name, value in properties.items() if name not in (REAL_TOPIC, REAL_QUEUE_ID)})
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties), kept, True)


def op_move(offsets: Iterable[int], store_host: bytes, now_ms: int) -> ReaddressRequest:
    """An op message, beside messages that were committed."""
    return (memoryview(encode_record(op_message(offsets, store_host, now_ms))), _OP_ADDRESS, None, b"")


def op_message(offsets: Iterable[int], store_host: bytes, now_ms: int) -> Record:
    body = _SEPARATOR.join([*map(str, offsets), ""])
    return Record(
        OP_TOPIC,
        body.encode(),
        _OP_PROPERTIES,
        QUEUE,
        born_timestamp=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def op_offsets(record: Record) -> list[int]:
    """The half messages that an op message says have ended. Apache before 5.0 wrote one to each, without a separator."""
    if decode_properties(record.properties).get(TAGS) != _ENDED_TAG:
        return []
    pieces = str(record.body, "ascii", "replace").split(_SEPARATOR)
    return [offset for piece in pieces if (offset := number(piece)) >= 0]


# --- what becomes of those that do not end


def copy_for_question(half: Half) -> Half:
    """The half message again, asked about once more. (Apache's copies lose the flag and the reconsume times; ours keep them.)"""
    return _copied(half, {TRANSACTION_CHECK_TIMES: str(half.check_times + 1)})


def copy_of_immune(half: Half) -> Half:
    """The half message again, to be looked at later: its producer goes on knowing it by the offset that it was told."""
    known_as = half.properties.get(PREPARED_QUEUE_OFFSET) or str(half.record.queue_offset)
    return _copied(half, {PREPARED_QUEUE_OFFSET: known_as, WAIT: "false"})


def _copied(half: Half, changes: dict[str, str]) -> Half:
    properties = half.properties | changes
    return Half(replace(half.record, properties=_joined(properties)), properties)


def given_up(half: Half) -> Record:
    return replace(half.record, topic=CHECK_MAX_TIME_TOPIC, queue_id=QUEUE)


def resumed(half: Half) -> Record:
    """One that was given up, as a half message that nobody was asked about."""
    properties = half.properties | {TRANSACTION_CHECK_TIMES: "0"}
    return replace(half.record, topic=HALF_TOPIC, queue_id=QUEUE, properties=_joined(properties))


def question(copy: Half, place: AppendResult, broker_name: str) -> Command:
    """39: how did this end? The message goes along, under its own topic and queue, and the offsets are the copy's."""
    unique = copy.properties.get(UNIQUE_KEY)
    record = copy.record
    header = CheckTransactionStateRequestHeader(
        topic=HALF_TOPIC,
        tran_state_table_offset=place.queue_offset,
        commit_log_offset=place.physical_offset,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=encode_offset_id(record.store_host, place.physical_offset),
        rpc_broker_name=broker_name,
    )
    message = replace(
        record,
        topic=copy.topic,
        magic=magic_for(copy.topic),
        queue_id=copy.queue_id,
        queue_offset=place.queue_offset,
        physical_offset=place.physical_offset,
        properties=_joined(copy.properties | {WAIT: "false"}),
    )
    return Command(RequestCode.CHECK_TRANSACTION_STATE, fields=header.to_fields(), body=encode_record(message))


def _joined(properties: Mapping[str, str]) -> bytes:
    """Unchecked: what was read from a record goes back as it was."""
    return "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()]).encode(errors="replace")
