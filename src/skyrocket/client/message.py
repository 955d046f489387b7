"""A message to send. Its constructor refuses whatever no broker would accept."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NoReturn

import msgspec

from skyrocket.client.errors import InvalidMessageError
from skyrocket.client.session.names import check_topic
from skyrocket.compiled import twin
from skyrocket.protocol.limits import BODY_BYTES_MAX, PROPERTIES_BYTES_MAX
from skyrocket.protocol.message import properties as p
from skyrocket.protocol.message.properties import NAME_END, UNIQUE_KEY, VALUE_END

log = logging.getLogger(__name__)

RESERVED_PROPERTIES: Final = frozenset(
    {
        *(p.KEYS, p.TAGS, p.WAIT, p.UNIQUE_KEY, p.DELAY_LEVEL, p.RETRY_TOPIC, p.REAL_TOPIC, p.REAL_QUEUE_ID),
        *(p.TRANSACTION_PREPARED, p.PRODUCER_GROUP, p.MIN_OFFSET, p.MAX_OFFSET, p.ORIGIN_MESSAGE_ID, p.RECONSUME_TIME),
        *(p.MAX_RECONSUME_TIMES, p.MESSAGE_REGION, p.TRACE_ON, p.CLUSTER, p.INSTANCE_ID, p.CORRELATION_ID),
        *(p.REPLY_TO_CLIENT, p.TIME_TO_LIVE, p.TIMER_DELAY_MS, p.TIMER_DELAY_SEC, p.TIMER_DELIVER_MS),
        *("BUYER_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "CONSUME_START_TIME", "POP_CK", "POP_CK_OFFSET"),
        *("1ST_POP_TIME", "TRAN_PREPARED_QUEUE_OFFSET", "DUP_INFO", "EXTEND_UNIQ_INFO", "ARRIVE_TIME", "PUSH_REPLY_TIME"),
        *("MSG_TYPE", "INNER_MULTI_QUEUE_OFFSET", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS"),
        *("TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL", "__BORNHOST", "BORN_TIMESTAMP", "DLQ_ORIGIN_TOPIC"),
        *("DLQ_ORIGIN_MESSAGE_ID", "__CRC32#"),
    }
)
DELAY_LEVELS: Final = 18  # of a broker with the default messageDelayLevel
_BYTES_OF_A_CHARACTER_MAX = 4
_ID_BYTES = len(UNIQUE_KEY) + 58  # the longest id, with an IPv6 address, and its separators
_BYTES_MAX = PROPERTIES_BYTES_MAX - _ID_BYTES


class _NoProperties(dict[str, str]):
    """The properties of all messages without any: one shared dictionary, because one for each message would burden Python's
    garbage collector."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidMessageError(
            "The properties of a message cannot be changed. Pass them when it is made: Message(…, properties={…})."
        )

    __setitem__ = setdefault = update = __ior__ = _refuse


class _Addressed(msgspec.Struct, gc=False):
    """The positional fields of a message."""

    topic: str
    body: bytes


class Message(_Addressed, kw_only=True, gc=False):
    """A message to send.

    Consumers filter by `tag`; `keys` find the message in the broker's index; messages with one `sharding_key` go to one queue, in
    order. A message is delivered at once, after its `delay_level` (1 to 18: 1 s, 5 s, 10 s, … 2 h), after the time `deliver_in`,
    or at the moment `deliver_at`. `properties` are the application's; names that RocketMQ reserves are refused. To derive a
    message from another, use `msgspec.structs.replace`.
    """

    tag: str = ""
    keys: str | Iterable[str] = ()
    properties: Mapping[str, str] = msgspec.field(default=_NoProperties())
    delay_level: int = 0
    deliver_in: timedelta | None = None
    deliver_at: datetime | None = None
    sharding_key: str = ""
    flag: int = 0
    wait_until_stored: bool = True  # False: the broker acknowledges before sync flush and replication are done

    def __post_init__(self) -> None:
        check_message(self)

    def _check_texts(self) -> None:
        """Check keys, properties and sharding key."""
        if self.keys:
            self.keys = (self.keys,) if isinstance(self.keys, str) else tuple(self.keys)
            for key in self.keys:
                _check_type("key", key, str)
                if not key or any(character.isspace() for character in key):
                    raise InvalidMessageError(
                        f"{key!r} is not a valid key. A key needs at least one character and no white space."
                    )
        for name, value in self.properties.items():
            _check_property(name, value)
        if self.sharding_key:
            _check_text("sharding key", self.sharding_key)

    def _check_delivery(self) -> None:
        """Check when the message is to be delivered."""
        if (self.delay_level != 0) + (self.deliver_in is not None) + (self.deliver_at is not None) > 1:
            raise InvalidMessageError("A message can have only one of delay_level, deliver_in and deliver_at.")
        _check_type("delay_level", self.delay_level, int)
        if self.delay_level < 0:
            raise InvalidMessageError(f"delay_level is {self.delay_level}; it must be 1 or more, or 0 for no delay.")
        if self.delay_level > DELAY_LEVELS:
            _warn_of_delay_level(self.delay_level)
        if self.deliver_at is not None and self.deliver_at.tzinfo is None:
            raise InvalidMessageError(
                "deliver_at has no time zone. Use an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)."
            )

    @property
    def is_plain(self) -> bool:
        """Whether the message has no properties beside a tag."""
        return not (
            self.keys
            or self.properties
            or self.sharding_key
            or self.delay_level
            or self.deliver_in is not None
            or self.deliver_at is not None
        )

    @property
    def is_delayed(self) -> bool:
        return bool(self.delay_level) or self.deliver_in is not None or self.deliver_at is not None


def _check_message(message: Message) -> None:
    """Raise InvalidMessageError when no broker would accept the message; make its body bytes and its keys a tuple."""
    if type(message.topic) is not str:
        _check_type("topic", message.topic, str)
    check_topic(message.topic)
    if type(message.body) is not bytes or not message.body:
        message.body = _to_bytes(message.body)
    if message.tag:
        if type(message.tag) is not str:
            _check_type("tag", message.tag, str)
        check_tag(message.tag)
    if message.keys or message.properties or message.sharding_key:
        message._check_texts()
    if message.delay_level or message.deliver_in is not None or message.deliver_at is not None:
        message._check_delivery()


check_message = twin("outgoing", _check_message)


def require_message(message: object, method: str) -> None:
    """Raise InvalidMessageError when something else than a message is to be sent."""
    if not isinstance(message, Message):
        raise InvalidMessageError(
            f"{method} takes a Message, not {type(message).__name__}. Make one: Message('orders', b'the body', tag='paid')."
        )


def properties_text(message: Message, unique_id: str, added: Mapping[str, str] | None = None) -> str:
    """Encode all properties for the wire: the id, those of the message's fields, the user's, and `added` ones of the client."""
    return f"{UNIQUE_KEY}\x01{unique_id}\x02{properties_without_id(message, added)}"


def properties_without_id(message: Message, added: Mapping[str, str] | None = None) -> str:
    """Encode all properties but the unique id."""
    if added is None and message.is_plain:
        return plain_properties(message.tag, message.wait_until_stored)
    parts = [f"WAIT\x01{'true' if message.wait_until_stored else 'false'}\x02"]
    if message.tag:
        parts.append(f"TAGS\x01{message.tag}\x02")
    if message.keys:
        parts.append(f"KEYS\x01{' '.join(message.keys)}\x02")
    if message.sharding_key:
        parts.append(f"__SHARDINGKEY\x01{message.sharding_key}\x02")
    if message.delay_level:
        parts.append(f"DELAY\x01{message.delay_level}\x02")
    elif message.deliver_in is not None:
        parts.append(f"TIMER_DELAY_MS\x01{message.deliver_in // timedelta(milliseconds=1)}\x02")
    elif message.deliver_at is not None:
        parts.append(f"TIMER_DELIVER_MS\x01{_epoch_ms(message.deliver_at)}\x02")
    for each in (message.properties, added):
        if each:
            parts += [f"{name}\x01{value}\x02" for name, value in each.items()]
    return _check_length("".join(parts))


def is_reserved(name: str) -> bool:
    """Whether RocketMQ reserves this property name."""
    return name in RESERVED_PROPERTIES


@lru_cache(maxsize=1024)  # a producer uses few tags
def plain_properties(tag: str, wait_until_stored: bool) -> str:
    """Encode the properties, without id, of a message that `is_plain`."""
    wait = f"WAIT\x01{'true' if wait_until_stored else 'false'}\x02"
    return _check_length(f"{wait}TAGS\x01{tag}\x02") if tag else wait


def _check_length(properties: str) -> str:
    if len(properties) * _BYTES_OF_A_CHARACTER_MAX > _BYTES_MAX and len(properties.encode()) > _BYTES_MAX:
        raise InvalidMessageError(
            f"The properties of the message exceed {PROPERTIES_BYTES_MAX} bytes, the most that a broker accepts."
        )
    return properties


def check_size(message: Message, body_bytes_max: int = BODY_BYTES_MAX) -> None:
    """Raise InvalidMessageError when the body is larger than allowed."""
    if len(message.body) > body_bytes_max:
        raise InvalidMessageError(f"The body has {len(message.body)} bytes; at most {body_bytes_max} are allowed.")


def _to_bytes(body: object) -> bytes:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise InvalidMessageError(f"The body is of type {type(body).__name__}; it must be bytes. Encode it first.")
    if not body:
        raise InvalidMessageError("The body is empty, which brokers refuse. Send at least one byte.")
    return bytes(body)


def _check_type(what: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidMessageError(f"The {what} is {value!r}, of type {type(value).__name__}; it must be {kind.__name__}.")


@lru_cache(maxsize=64)  # once for each level
def _warn_of_delay_level(level: int) -> None:
    log.warning(
        "delay_level is %d, but a broker has %d levels unless its messageDelayLevel says otherwise. "
        "It delivers the message after the delay of its last level, by default 2 h. For any other delay use deliver_in.",
        level,
        DELAY_LEVELS,
    )


def _check_property(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise InvalidMessageError(f"Property {name!r}: {value!r} is not valid. The name and the value must be str.")
    if name in RESERVED_PROPERTIES:
        raise InvalidMessageError(
            f"Property {name!r} is reserved. Use the fields of Message, such as tag, keys or delay_level, or another name."
        )
    if not name.strip() or not value.strip():
        raise InvalidMessageError(f"Property {name!r}: {value!r} has an empty name or value, which readers drop.")
    _check_text("property", name)
    _check_text("property", value)


def _check_text(what: str, text: str) -> None:
    if NAME_END in text or VALUE_END in text:
        raise InvalidMessageError(f"The {what} {text!r} contains 0x01 or 0x02, which separate properties on the wire.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidMessageError(f"The {what} {text!r} cannot be encoded as UTF-8: {error}.") from error


@lru_cache(maxsize=1024)  # a producer uses few tags; errors are not cached
def check_tag(tag: str) -> None:
    _check_text("tag", tag)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _epoch_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
