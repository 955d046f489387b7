"""Messages on their way into the store: append requests, their results, and what dispatch needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from skyrocket.protocol.message.properties import DELAY_LEVEL, KEY_SEPARATOR, KEYS, TAGS, UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import SCHEDULE_TOPIC

UNQUEUED = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
TAG_MARK = "T#"  # prefix of a tag in the index: keeps tags and keys apart


class AppendRequest(NamedTuple):
    """A message to append. `record` is encoded; the store fills in queue offset, physical offset and store time."""

    topic: str
    queue_id: int
    record: bytes
    tags_code: int  # hash of the tag, for the queue entry; see `delay_level` for delayed messages
    keys: tuple[str, ...]  # keys for the index, the unique key first
    sys_flag: int = 0
    delay_level: int = 0  # in SCHEDULE_TOPIC_XXXX only: the queue entry then holds the delivery time instead of the tag's hash


class AppendResult(NamedTuple):
    """Where an appended message lies in its queue and in the log."""

    queue_offset: int
    physical_offset: int
    size: int


class AppendPosition(NamedTuple):
    """Where the next append goes, and its store time. Valid until something else is appended."""

    position: int
    room_bytes: int  # bytes that fit before the log continues in its next file
    timestamp: int
    header_bytes: int = 0  # between two records: the store writes a header there (see `ledger/entry.py`)


# The fields of a DispatchRequest, in order, as a plain tuple. A tuple costs a tenth of a NamedTuple, and the send path needs it
# only until queue and index are written.
DispatchFields = tuple[str, int, int, int, int, int, int, tuple[str, ...], int]


class DispatchRequest(NamedTuple):
    """What consume queue and index need of a message in the log."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    keys: tuple[str, ...]
    sys_flag: int

    @property
    def is_queued(self) -> bool:
        """False for half messages and rollbacks of transactions: they are in the log only."""
        return self.sys_flag & TRANSACTION_MASK not in UNQUEUED

    @property
    def end(self) -> int:
        return self.physical_offset + self.size


def append_request_of(record: Record) -> AppendRequest:
    """Build an append request from a Record. The broker's send path builds requests without a Record."""
    properties = decode_properties(record.properties)
    return AppendRequest(
        record.topic,
        record.queue_id,
        encode_record(record),
        tags_code(properties.get(TAGS)),
        index_keys(properties),
        record.sys_flag,
        delay_level(record.topic, properties),
    )


def dispatch_fields_of(
    messages: Sequence[AppendRequest], placed: Sequence[AppendResult], timestamp: int, delays_ms: tuple[int, ...]
) -> list[DispatchFields]:
    """Return what queues and index need of messages that were just appended."""
    return [
        (
            topic,
            queue_id,
            queue_offset,
            physical_offset,
            size,
            queue_entry_code(code, level, timestamp, delays_ms) if level else code,
            timestamp,
            keys,
            sys_flag,
        )
        for (topic, queue_id, _, code, keys, sys_flag, level), (queue_offset, physical_offset, size) in zip(
            messages, placed, strict=True
        )
    ]


def dispatch_request_of(record: Record, size: int, delays_ms: tuple[int, ...]) -> DispatchRequest:
    """Derive what queues and index need from a record in the log. Recovery and repair use this."""
    properties = decode_properties(
        str(record.properties, "utf-8", "replace")
    )  # as Java reads them: bad UTF-8 must not keep a log from being opened
    level = delay_level(record.topic, properties)
    return DispatchRequest(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.physical_offset,
        size,
        queue_entry_code(tags_code(properties.get(TAGS)), level, record.store_timestamp, delays_ms),
        record.store_timestamp,
        index_keys(properties),
        record.sys_flag,
    )


def index_keys(properties: dict[str, str]) -> tuple[str, ...]:
    """Return the index keys of a message in Apache's order: unique key, keys and (since 5.5) the tag with its prefix."""
    keys = [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key]
    unique = properties.get(UNIQUE_KEY)
    if unique is not None:
        keys.insert(0, unique)
    tags = properties.get(TAGS)
    if tags:
        keys.append(TAG_MARK + tags)
    return tuple(keys)


def delay_level(topic: str, properties: dict[str, str]) -> int:
    """Return the delay level of a message in the schedule topic; 0 for any other message."""
    if topic != SCHEDULE_TOPIC:
        return 0
    text = properties.get(DELAY_LEVEL, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def queue_entry_code(code: int, level: int, store_timestamp: int, delays_ms: tuple[int, ...]) -> int:
    """Return the third field of a queue entry: the tag's hash, or the delivery time of a delayed message."""
    if level <= 0:
        return code
    return store_timestamp + delays_ms[min(level, len(delays_ms)) - 1]
