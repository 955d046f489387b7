"""The record: a message as the commit log stores it and as a broker sends it to consumers.

     0        4        8       12       16       20            28            36       40           48
     +--------+--------+--------+--------+--------+-------------+-------------+--------+------------+
     | size   | magic  | body   | queue  | flag   | queue       | physical    | sys    | born       |
     |        |        | CRC    | id     |        | offset      | offset      | flag   | timestamp  |
     +--------+--------+--------+--------+--------+-------------+-------------+--------+------------+
     | born host, 8 or 20 | store timestamp, 8 | store host, 8 or 20 | reconsume times, 4 |
     +--------------------+--------------------+---------------------+--------------------+
     | prepared transaction offset, 8 | B: 4 | body, B | T: 1 or 2 | topic, T | P: 2 | properties, P |
     +--------------------------------+------+---------+-----------+----------+------+---------------+

Two bits of the sys flag tell whether each host is IPv6 (20 bytes) or IPv4 (8). With the second magic, the topic's length has two
bytes instead of one. The CRC is the CRC-32 of the body with its top bit cleared, because Java's ints are signed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from skyrocket.protocol.sysflag import BORN_HOST_V6, COMPRESSED, STORE_HOST_V6

MAGIC: Final = -0x255CDF59  # 0xDAA320A7: one byte for the topic's length
MAGIC_V2: Final = -0x255CDF55  # 0xDAA320AB: two bytes
BLANK_MAGIC: Final = -0x342BCE6C  # 0xCBD43194: the filler at the end of a log file

QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
_SYS_FLAG_END = 40
BORN_TIMESTAMP_AT: Final = _SYS_FLAG_END

HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6
_HOST_BITS_SHIFT = 4
_HOST_BITS_AT = SYS_FLAG_AT + 3  # both bits are in the lowest byte of the sys flag

# Size … body length in one step: four layouts, by the two bits of the sys flag, because a host has one of two lengths.
_LAYOUTS: Final = tuple(
    struct.Struct(f">iiiiiqqiq{born_bytes}sq{store_bytes}siqi")
    for store_bytes in (V4_BYTES, V6_BYTES)
    for born_bytes in (V4_BYTES, V6_BYTES)
)
# The fields that a check of a record needs: size, magic, CRC, queue offset, body length. By the same two bits.
_GLANCES: Final = tuple(struct.Struct(f">iii8xq{layout.size - QUEUE_OFFSET_AT - 12}xi") for layout in _LAYOUTS)
_LENGTH_V1 = struct.Struct(">B")
_LENGTH_V2 = struct.Struct(">h")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_FIXED_BYTES: Final = tuple(layout.size for layout in _LAYOUTS)
_MAGIC_LAST_AT = 7  # the two magics differ in their last byte
_MAGIC_LAST = MAGIC & 0xFF
_SIZE_AND_MAGIC = struct.Struct(">ii")
_CRC_AT = _SIZE_AND_MAGIC.size
_QUEUE_ID_AT = 12
_STORE_TIME_AT = 48 + V4_BYTES  # after an IPv4 born host
_NO_TRANSACTION = bytes(8)
_TRANSACTION_BEFORE_BODY = len(_NO_TRANSACTION) + _INT32.size  # the prepared transaction's offset, and the body's length

FIXED_BYTES_MIN: Final = _LAYOUTS[0].size + _LENGTH_V1.size + _INT16.size
TOPIC_BYTES_MAX_V2: Final = 32_767


class Record(msgspec.Struct, gc=False):
    """A message with all fields of the store. `properties` and the hosts stay encoded.

    Pass the fields by name. Only the loops here and in `batch` pass them by position, which takes a fifth of the time.
    """

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = bytes(V4_BYTES)
    store_timestamp: int = 0
    store_host: bytes = bytes(V4_BYTES)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    magic: int = MAGIC


class _TopicLength(NamedTuple):
    """How a record with one of the two magics stores the length of its topic."""

    layout: struct.Struct
    topic_bytes_max: int


_TOPIC_LENGTHS: Final = {
    MAGIC: _TopicLength(_LENGTH_V1, TOPIC_BYTES_MAX),
    MAGIC_V2: _TopicLength(_LENGTH_V2, TOPIC_BYTES_MAX_V2),
}
_MAGICS_SHOWN = " or ".join(f"{magic & 0xFFFF_FFFF:#x}" for magic in _TOPIC_LENGTHS)


def topic_bytes_max(magic: int) -> int:
    return _TOPIC_LENGTHS[magic].topic_bytes_max


def magic_for(topic: str) -> int:
    """Return the first magic if the topic's name fits, because readers before 5.0 do not support the second."""
    return MAGIC if len(topic.encode(errors="replace")) <= TOPIC_BYTES_MAX else MAGIC_V2


def body_crc32(body: bytes | memoryview) -> int:
    return crc32(body) & 0x7FFF_FFFF


@lru_cache(maxsize=1024)  # a broker writes to few topics
def topic_field(topic: str, magic: int) -> bytes:
    """Return the topic field of a record: the length, then the name."""
    length = _TOPIC_LENGTHS.get(magic)
    if length is None:
        raise RecordError(f"A record's magic is {magic & 0xFFFF_FFFF:#x}; it is {_MAGICS_SHOWN}.")
    try:
        encoded = topic.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"A topic has text that is not Unicode: {error}.") from error
    if not 0 < len(encoded) <= length.topic_bytes_max:
        raise RecordError(f"A topic of {len(encoded)} bytes does not fit in a record: it has 1 to {length.topic_bytes_max}.")
    return length.layout.pack(len(encoded)) + encoded


def properties_length(properties: bytes) -> bytes:
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise RecordError(f"Properties of {len(properties)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed.")
    return _INT16.pack(len(properties))


_HOST_IS_V6 = {V4_BYTES: 0, V6_BYTES: 1}


def layout_for(born_host: bytes, store_host: bytes) -> tuple[struct.Struct, int]:
    """Return the layout of the fixed fields for these hosts, and the bits of the sys flag that select it."""
    try:
        kinds = _HOST_IS_V6[len(born_host)] | _HOST_IS_V6[len(store_host)] << 1
    except KeyError as error:
        raise RecordError(f"A host has {error} bytes; it is {V4_BYTES} (IPv4) or {V6_BYTES} (IPv6).") from error
    return _LAYOUTS[kinds], kinds << _HOST_BITS_SHIFT


def encode_record(record: Record) -> bytes:
    """Encode a record. Size, CRC and the host bits of the sys flag are computed, not taken from `record`."""
    body, properties = record.body, record.properties
    topic = topic_field(record.topic, record.magic)
    properties_bytes = properties_length(properties)
    layout, host_bits = layout_for(record.born_host, record.store_host)
    try:
        fixed = layout.pack(
            layout.size + len(body) + len(topic) + len(properties_bytes) + len(properties),
            record.magic,
            body_crc32(body),
            record.queue_id,
            record.flag,
            record.queue_offset,
            record.physical_offset,
            record.sys_flag & ~HOST_BITS | host_bits,
            record.born_timestamp,
            record.born_host,
            record.store_timestamp,
            record.store_host,
            record.reconsume_times,
            record.prepared_transaction_offset,
            len(body),
        )
    except struct.error as error:
        raise RecordError(f"A message for topic '{record.topic}' does not fit in a record: {error}.") from error
    return b"".join((fixed, body, topic, properties_bytes, properties))


def decode_record(data: bytes | memoryview, at: int = 0, *, check_crc: bool = True) -> Record:
    """Decode the record that starts at `at`. Raise RecordError if it is malformed; every length is checked before use."""
    assert at >= 0, at
    available = len(data) - at
    if available < FIXED_BYTES_MIN:
        raise RecordError(f"{available} bytes at {at} are fewer than the {FIXED_BYTES_MIN} of the smallest record.")
    layout = _LAYOUTS[(data[at + _HOST_BITS_AT] >> _HOST_BITS_SHIFT) & 3]
    if available < layout.size:
        raise RecordError(f"{available} bytes at {at} are fewer than the {layout.size} of a record's fixed fields.")
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_bytes,
    ) = layout.unpack_from(data, at)
    if not FIXED_BYTES_MIN <= size <= available:
        raise RecordError(f"The record at {at} says it has {size} bytes, but {available} are there.")
    if not 0 <= body_bytes <= size - layout.size:
        raise RecordError(f"The record at {at} says its body has {body_bytes} bytes, which do not fit in its {size}.")
    end = at + size
    body_at = at + layout.size
    body_end = body_at + body_bytes
    topic_at, topic_end, properties_at = _bounds(data, at, magic, body_end, end)
    body = bytes(data[body_at:body_end])
    if check_crc and crc != crc32(body) & 0x7FFF_FFFF:
        raise RecordError(f"The body of the record at {at} has CRC {body_crc32(body)}; the record says {crc}.")
    try:
        topic = str(data[topic_at:topic_end], "utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"The topic of the record at {at} is not UTF-8: {error}.") from error
    return Record(
        topic,
        body,
        bytes(data[properties_at:end]),
        queue_id,
        queue_offset,
        physical_offset,
        flag,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        crc,
        magic,
    )


def _bounds(data: bytes | memoryview, at: int, magic: int, body_end: int, end: int) -> tuple[int, int, int]:
    """Return where the topic starts and ends, and where the properties start. Raise RecordError if one is outside the record."""
    topic_length = _TOPIC_LENGTHS.get(magic)
    if topic_length is None:
        raise RecordError(f"The magic at {at} is {magic & 0xFFFF_FFFF:#x}; it is {_MAGICS_SHOWN}.")
    length_layout, bytes_max = topic_length
    topic_at = body_end + length_layout.size
    if topic_at > end:
        raise RecordError(f"The record at {at} ends with its body: it has no topic.")
    (topic_bytes,) = length_layout.unpack_from(data, body_end)
    topic_end = topic_at + topic_bytes
    properties_at = topic_end + _INT16.size
    if not 0 < topic_bytes <= bytes_max or properties_at > end:
        raise RecordError(f"The record at {at} says its topic has {topic_bytes} bytes, which is none or too many.")
    (properties_bytes,) = _INT16.unpack_from(data, topic_end)
    if properties_bytes < 0 or properties_at + properties_bytes != end:
        raise RecordError(f"The record at {at} has {properties_bytes} bytes of properties; they do not end where it does.")
    return topic_at, topic_end, properties_at


def iterate_records(data: bytes | memoryview, *, check_crc: bool = True) -> Iterator[Record]:
    """Decode the records in the body of a pull response, which follow each other without separators."""
    at = 0
    while at < len(data):
        yield decode_record(data, at, check_crc=check_crc)
        at += _INT32.unpack_from(data, at)[0]  # the size, which decode_record has checked


class RecordParts(NamedTuple):
    """A checked but undecoded record: `decode_record(head + body + tail)` decodes it."""

    queue_offset: int
    is_compressed: bool
    head: bytes
    body: bytes
    tail: bytes  # topic and properties


RecordTuple = tuple[int, bool, bytes, bytes, bytes]
"""The fields of `RecordParts` as a plain tuple, which takes a third of the time to make."""


def split_records(data: bytes) -> list[RecordParts]:
    """Split the body of a pull response into records, with the checks of `decode_record`, in a third of its time."""
    return list(map(RecordParts._make, split_record_tuples(data)))


def split_record_tuples(data: bytes) -> list[RecordTuple]:
    """Split the body of a pull response into records, as plain tuples.

    Neighbouring records usually have the same topic, so the topic of the first is only compared with that of the next ones. For a
    malformed record, `decode_record` raises the error.
    """
    found: list[RecordTuple] = []
    at = 0
    while at < len(data):
        first = decode_record(data, at)
        before, at = at, split_same_topic(data, at, first.magic, topic_field(first.topic, first.magic), found)
        if at == before:
            raise RecordError(f"The record at {at} is malformed.")
    return found


def _split_same_topic(data: bytes, at: int, magic: int, topic: bytes, found: list[RecordTuple]) -> int:
    """Append the valid records of this magic and topic from `at` on. Return where the first other record starts."""
    available = len(data)
    append, crc_of, has, topic_bytes = found.append, crc32, data.startswith, len(topic)
    known_kinds, fixed_bytes, glance, is_compressed = -1, 0, _GLANCES[0].unpack_from, False
    try:
        while at < available:
            kinds = data[at + _HOST_BITS_AT]
            if kinds != known_kinds:
                layout = kinds >> _HOST_BITS_SHIFT & 3
                known_kinds, fixed_bytes, glance = kinds, _FIXED_BYTES[layout], _GLANCES[layout].unpack_from
                is_compressed = kinds & COMPRESSED != 0
            size, found_magic, crc, queue_offset, body_bytes = glance(data, at)
            body_at = at + fixed_bytes
            body_end, end = body_at + body_bytes, at + size
            properties_at = body_end + topic_bytes + _INT16.size
            if found_magic != magic or not body_at <= body_end < properties_at <= end <= available or not has(topic, body_end):
                break
            body = data[body_at:body_end]
            if data[properties_at - 2] << 8 | data[properties_at - 1] != end - properties_at or crc_of(body) & 0x7FFF_FFFF != crc:
                break
            append((queue_offset, is_compressed, data[at:body_at], body, data[body_end:end]))
            at = end
    except (IndexError, struct.error):
        return at  # the fixed fields of a record are cut off
    return at


split_same_topic = twin("record", _split_same_topic)


def fixed_bytes_of(record: bytes) -> int:
    """Return how many bytes of a record are before its body. The record may end there."""
    return _FIXED_BYTES[(record[_HOST_BITS_AT] >> _HOST_BITS_SHIFT) & 3]


def properties_of(record: memoryview) -> memoryview:
    """Return the encoded properties of a complete, valid record, without reading its body."""
    fixed = _FIXED_BYTES[(record[_HOST_BITS_AT] >> _HOST_BITS_SHIFT) & 3]
    topic_at = fixed + _INT32.unpack_from(record, fixed - _INT32.size)[0]
    if record[_MAGIC_LAST_AT] == _MAGIC_LAST:
        topic_end = topic_at + 1 + record[topic_at]
    else:
        topic_end = topic_at + 2 + _INT16.unpack_from(record, topic_at)[0]
    return record[topic_end + _INT16.size :]


def rewrite_address(
    record: memoryview,
    topic: str,
    queue_id: int,
    *,
    properties: bytes | None = None,
    more: bytes = b"",
    sys_flag: int | None = None,
    transaction: bytes = _NO_TRANSACTION,
) -> bytes:
    """Return a complete, valid record, rewritten for another topic and queue.

    Body, CRC, hosts and properties are copied without decoding. The result may have other `properties`, or `more` of them,
    another sys flag, and as `transaction` the encoded offset of its half message.
    """
    fixed = _FIXED_BYTES[(record[_HOST_BITS_AT] >> _HOST_BITS_SHIFT) & 3]
    body_end = fixed + _INT32.unpack_from(record, fixed - _INT32.size)[0]
    if record[_MAGIC_LAST_AT] == _MAGIC_LAST:
        topic_end = body_end + 1 + record[body_end]
    else:
        topic_end = body_end + 2 + _INT16.unpack_from(record, body_end)[0]
    magic, topic_bytes = _address(topic)
    transaction_at = fixed - _TRANSACTION_BEFORE_BODY
    tail: bytes | memoryview = record[topic_end:]
    if properties is not None or more:
        stored = b"".join((record[topic_end + _INT16.size :] if properties is None else properties, more))
        tail = properties_length(stored) + stored
    return b"".join(
        (
            _SIZE_AND_MAGIC.pack(body_end + len(topic_bytes) + len(tail), magic),
            record[_CRC_AT:_QUEUE_ID_AT],
            _INT32.pack(queue_id),
            record[_QUEUE_ID_AT + _INT32.size : SYS_FLAG_AT],
            record[SYS_FLAG_AT:_SYS_FLAG_END] if sys_flag is None else _INT32.pack(sys_flag),
            record[_SYS_FLAG_END:transaction_at],
            transaction,
            record[fixed - _INT32.size : body_end],
            topic_bytes,
            tail,
        )
    )


def store_timestamp_of(record: memoryview) -> int:
    """Return the store timestamp of a complete, valid record."""
    at = _STORE_TIME_AT + (V6_BYTES - V4_BYTES if record[_HOST_BITS_AT] & BORN_HOST_V6 else 0)
    return int.from_bytes(record[at : at + 8], signed=True)


@lru_cache(maxsize=1024)
def _address(topic: str) -> tuple[int, bytes]:
    magic = magic_for(topic)
    return magic, topic_field(topic, magic)
