"""A message's properties: pairs of name and value, each written as name 0x01 value 0x02; and the names that RocketMQ reserves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
KEY_SEPARATOR: Final = " "

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
UNIQUE_KEY: Final = "UNIQ_KEY"
DELAY_LEVEL: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
MESSAGE_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
SHARDING_KEY: Final = "__SHARDINGKEY"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DELETE_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TIME_TO_LIVE: Final = "TTL"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode properties.

    Raise RecordError for an empty name or value, or a separator inside one: a reader could not restore it.
    """
    text = "".join([f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()])
    count = len(properties)
    has_spare_separator = text.count(NAME_END) != count or text.count(VALUE_END) != count
    if has_spare_separator or "" in properties or "" in properties.values():
        _refuse_properties(properties)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"A property has text that is not Unicode: {error}.") from error
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise RecordError(f"Properties of {len(encoded)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed.")
    return encoded


def _refuse_properties(properties: Mapping[str, str]) -> None:
    """Raise an error that names the invalid property. At least one is invalid."""
    for name, value in properties.items():
        if not name or not value:
            raise RecordError(f"Property {name!r} has an empty name or value; readers drop such a property.")
        if NAME_END in name or VALUE_END in name or NAME_END in value or VALUE_END in value:
            raise RecordError(f"Property {name!r} has 0x01 or 0x02 in its name or value. These bytes separate properties.")


def decode_properties(encoded: bytes | str) -> dict[str, str]:
    """Decode properties as Java does.

    A piece without name, separator or value is skipped, and the last of two equal names wins. Bytes that are not UTF-8 become
    U+FFFD, so that one such message does not stop a reader.
    """
    if not isinstance(encoded, str):
        encoded = str(encoded, "utf-8", "replace")
    properties: dict[str, str] = {}
    for piece in encoded.split(VALUE_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties
