"""Messages on their way into the store, and where they came to lie."""

from __future__ import annotations

from typing import NamedTuple

from skyrocket.protocol.message.properties import DELAY_LEVEL, KEY_SEPARATOR, KEYS, TAGS, UNIQUE_KEY, decode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.message.tags import tags_code
from skyrocket.protocol.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from skyrocket.protocol.system_names import SCHEDULE_TOPIC

UNQUEUED = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
TAG_MARK = "T#"  # before a tag in the index, so that it is no key


class AppendRequest(NamedTuple):
    """A message to append. `record` is encoded; queue offset, physical offset and store time are set when it is placed."""

    topic: str
    queue_id: int
    record: bytes
    tags_code: int  # what the queue entry holds: the tag's hash, or the delay of a delayed message (see `delay_level`)
    keys: tuple[str, ...]  # what the index finds it by, the unique key first
    sys_flag: int = 0
    delay_level: int = 0  # of a message in SCHEDULE_TOPIC_XXXX: its queue entry holds the time of delivery instead of a tag


class AppendResult(NamedTuple):
    """Where an appended message lies."""

    queue_offset: int
    physical_offset: int
    size: int


class AppendPosition(NamedTuple):
    """Where the next records will lie and when they will have been stored, as long as nothing else is appended before them."""

    position: int
    room_bytes: int  # what fits there before the log goes on in its next file
    timestamp: int


# What a Dispatch has, in its order, as the plain tuple that it is made of: one costs a tenth of a Dispatch, and a send needs it
# only as long as it takes to write queue and index.
DispatchFields = tuple[str, int, int, int, int, int, int, tuple[str, ...], int]


class DispatchRequest(NamedTuple):
    """A confirmed message, for its consume queue and the index."""

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
        """Half messages and rollbacks of transactions are in the log only."""
        return self.sys_flag & TRANSACTION_MASK not in UNQUEUED

    @property
    def end(self) -> int:
        return self.physical_offset + self.size


def append_request_of(record: Record) -> AppendRequest:
    """From a record. The broker's send path builds these without a Record in between."""
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


def dispatch_request_of(record: Record, size: int, delays_ms: tuple[int, ...]) -> DispatchRequest:
    """What a record in the log means for queues and index. The same for one just appended and one found at recovery."""
    properties = decode_properties(str(record.properties, "utf-8", "replace"))  # as Java reads them: none keeps a log closed
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
    """What a message is found by, in Apache's order: its unique key, its keys and (since 5.5) its tag, under a mark."""
    keys = [key for key in properties.get(KEYS, "").split(KEY_SEPARATOR) if key]
    unique = properties.get(UNIQUE_KEY)
    if unique is not None:
        keys.insert(0, unique)
    tags = properties.get(TAGS)
    if tags:
        keys.append(TAG_MARK + tags)
    return tuple(keys)


def delay_level(topic: str, properties: dict[str, str]) -> int:
    """0 unless the message waits in the schedule topic."""
    if topic != SCHEDULE_TOPIC:
        return 0
    text = properties.get(DELAY_LEVEL, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def queue_entry_code(code: int, level: int, store_timestamp: int, delays_ms: tuple[int, ...]) -> int:
    """The third field of a queue entry."""
    if level <= 0:
        return code
    return store_timestamp + delays_ms[min(level, len(delays_ms)) - 1]
