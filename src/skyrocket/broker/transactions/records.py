"""The records of transactions, each as Apache 5.5.0 writes it.

half        a message that a producer sent, kept in RMQ_SYS_TRANS_HALF_TOPIC until its transaction ends
committed   the message itself, in the topic and queue that it was sent to
op          the queue offsets of half messages that have ended, in RMQ_SYS_TRANS_OP_HALF_TOPIC: "17,19,20,"
copy        a half message again, at the end of its queue: its producer is checked, or is immune against checks for now
given up    a half message whose producer never said how it ended, in TRANS_CHECK_MAX_TIME_TOPIC
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from skyrocket.broker.names import name_problem
from skyrocket.protocol.command import Command
from skyrocket.protocol.headers import CheckTransactionStateRequestHeader
from skyrocket.protocol.message.message_id import encode_offset_id
from skyrocket.protocol.message.properties import (
    CHECK_IMMUNITY_TIME,
    NAME_END,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    UNIQUE_KEY,
    VALUE_END,
    WAIT,
    decode_properties,
    encode_properties,
)
from skyrocket.protocol.message.record import Record, encode_record, magic_for
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import TRANSACTION_MASK
from skyrocket.protocol.system_names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from skyrocket.store.log.readdress import Address, ReaddressRequest
from skyrocket.store.message import AppendResult, index_keys

QUEUE: Final = 0  # the half topic and the op topic have one queue each

PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"  # on a copy: the queue offset by which the producer knows the message
_ENDED_TAG = "d"
_SEPARATOR = ","
_OP_PROPERTIES: Final = encode_properties({WAIT: "true", TAGS: _ENDED_TAG})
_OP_ADDRESS: Final = Address.of(OP_TOPIC, QUEUE, tags_code(_ENDED_TAG), index_keys({TAGS: _ENDED_TAG}))
_NO_NUMBER: Final = -1


class HalfMessage(NamedTuple):
    """A half message that was read from the log."""

    record: Record
    properties: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> HalfMessage:
        return cls(record, decode_properties(record.properties))

    @property
    def topic(self) -> str:
        """The topic that a commit delivers the message to."""
        return self.properties.get(REAL_TOPIC, "")

    @property
    def queue_id(self) -> int:
        return number(self.properties.get(REAL_QUEUE_ID))

    @property
    def producer_group(self) -> str | None:
        return self.properties.get(PRODUCER_GROUP)

    @property
    def check_times(self) -> int:
        """How often its producer was checked."""
        return number(self.properties.get(TRANSACTION_CHECK_TIMES), 0)

    @property
    def immunity(self) -> str | None:
        """The seconds for which its producer wants no check."""
        return self.properties.get(CHECK_IMMUNITY_TIME)

    @property
    def original_offset(self) -> int:
        """On a copy that no check named: the queue offset by which the producer knows the message. Otherwise -1."""
        return number(self.properties.get(PREPARED_QUEUE_OFFSET))


def number(text: str | None, otherwise: int = _NO_NUMBER) -> int:
    """Read a property as Java's long. Return `otherwise` when it is missing, -1 when it is no number."""
    if text is None:
        return otherwise
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else _NO_NUMBER


def half_of(record: Record, properties: dict[str, str]) -> Record:
    """Return the half message of a sent message. `properties` become those that are stored with it."""
    if unique := properties.get(UNIQUE_KEY):
        properties[TRANSACTION_ID] = unique
    properties[REAL_TOPIC] = record.topic
    properties[REAL_QUEUE_ID] = str(record.queue_id)
    return replace(record, topic=HALF_TOPIC, queue_id=QUEUE, sys_flag=record.sys_flag & ~TRANSACTION_MASK)


# --- ends of transactions


class HalfFacts(NamedTuple):
    """What the rules for ending a transaction need of a half message's properties."""

    producer_group: str | None
    immunity: str | None
    address: Address | None  # where a commit delivers the message; None: the properties do not say

    @classmethod
    def of(cls, properties: dict[str, str]) -> HalfFacts:
        return cls(properties.get(PRODUCER_GROUP), properties.get(CHECK_IMMUNITY_TIME), _real_address(properties))


def _real_address(properties: dict[str, str]) -> Address | None:
    """Return where a commit delivers the message. A committed message keeps the property TRAN_MSG, as Apache's do."""
    topic, queue_id = properties.get(REAL_TOPIC, ""), number(properties.get(REAL_QUEUE_ID))
    if name_problem(topic) is not None or queue_id < 0:
        return None
    kept = _encode_unchecked({name: value for name, value in properties.items() if name not in (REAL_TOPIC, REAL_QUEUE_ID)})
    return Address.of(topic, queue_id, tags_code(properties.get(TAGS)), index_keys(properties), kept, True)


def op_request(offsets: Iterable[int], store_host: bytes, now_ms: int) -> ReaddressRequest:
    """Make an op message that is appended together with committed messages."""
    return (memoryview(encode_record(op_message(offsets, store_host, now_ms))), _OP_ADDRESS, None, b"")


def op_message(offsets: Iterable[int], store_host: bytes, now_ms: int) -> Record:
    """Make the op message that says that the half messages at these queue offsets have ended."""
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
    """Return the queue offsets that an op message names. Apache before 5.0 wrote one offset, without a separator."""
    if decode_properties(record.properties).get(TAGS) != _ENDED_TAG:
        return []
    pieces = str(record.body, "ascii", "replace").split(_SEPARATOR)
    return [offset for piece in pieces if (offset := number(piece)) >= 0]


# --- half messages that do not end


def copy_for_check(half: HalfMessage) -> HalfMessage:
    """Copy a half message whose producer is checked. (Apache's copies lose the flag and the reconsume times; ours keep them.)"""
    return _copy(half, {TRANSACTION_CHECK_TIMES: str(half.check_times + 1)})


def copy_while_immune(half: HalfMessage) -> HalfMessage:
    """Copy a half message that is to be looked at later. Its producer still knows it by the original queue offset."""
    original = half.properties.get(PREPARED_QUEUE_OFFSET) or str(half.record.queue_offset)
    return _copy(half, {PREPARED_QUEUE_OFFSET: original, WAIT: "false"})


def _copy(half: HalfMessage, changes: dict[str, str]) -> HalfMessage:
    properties = half.properties | changes
    return HalfMessage(replace(half.record, properties=_encode_unchecked(properties)), properties)


def give_up_check(half: HalfMessage) -> Record:
    return replace(half.record, topic=CHECK_MAX_TIME_TOPIC, queue_id=QUEUE)


def resume_check(half: HalfMessage) -> Record:
    """Return a given-up message as a half message that was never checked."""
    properties = half.properties | {TRANSACTION_CHECK_TIMES: "0"}
    return replace(half.record, topic=HALF_TOPIC, queue_id=QUEUE, properties=_encode_unchecked(properties))


def check_request(copy: HalfMessage, place: AppendResult, broker_name: str) -> Command:
    """Make the request CHECK_TRANSACTION_STATE (39), which asks a producer how a transaction ended.

    Its body is the message under its own topic and queue, with the offsets of the copy at `place`.
    """
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
        properties=_encode_unchecked(copy.properties | {WAIT: "false"}),
    )
    return Command(RequestCode.CHECK_TRANSACTION_STATE, fields=header.to_fields(), body=encode_record(message))


def _encode_unchecked(properties: Mapping[str, str]) -> bytes:
    """Encode properties that were read from a record; they go back as they were, without checks."""
    return "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()]).encode(errors="replace")
