"""The record: a message as it lies in the commit log, and as it is sent to consumers.

     0        4        8       12       16       20            28            36       40           48
     +--------+--------+--------+--------+--------+-------------+-------------+--------+------------+
     | size   | magic  | body   | queue  | flag   | queue       | physical    | sys    | born       |
     |        |        | CRC    | id     |        | offset      | offset      | flag   | timestamp  |
     +--------+--------+--------+--------+--------+-------------+-------------+--------+------------+
     | born host, 8 or 20 | store timestamp, 8 | store host, 8 or 20 | reconsume times, 4 |
     +--------------------+--------------------+---------------------+--------------------+
     | prepared transaction offset, 8 | B: 4 | body, B | T: 1 or 2 | topic, T | P: 2 | properties, P |
     +--------------------------------+------+---------+-----------+----------+------+---------------+

Two bits of the sys flag say whether a host is IPv6 (20 bytes) or IPv4 (8). The second magic has two bytes for the length of
the topic instead of one. The CRC is CRC-32 of the body with its top bit cleared, because Java's ints are signed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

import msgspec

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES, is_v6
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX
from skyrocket.protocol.sysflag import BORN_HOST_V6, STORE_HOST_V6

MAGIC: Final = -0x255CDF59  # 0xDAA320A7: one byte for the topic's length
MAGIC_V2: Final = -0x255CDF55  # 0xDAA320AB: two bytes
BLANK_MAGIC: Final = -0x342BCE6C  # 0xCBD43194: the filler at the end of a log file

QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36

_HEAD = struct.Struct(">iiiiiqqiq")  # size … born timestamp
_MIDDLE = struct.Struct(">iqi")  # reconsume times, prepared transaction offset, body length
_INT64 = struct.Struct(">q")
_INT16 = struct.Struct(">h")
_TOPIC_LENGTH_V2 = struct.Struct(">h")

_TAIL_BYTES = 1 + 2  # the lengths of topic and properties
FIXED_BYTES_MIN: Final = _HEAD.size + 2 * V4_BYTES + 8 + _MIDDLE.size + _TAIL_BYTES
TOPIC_BYTES_MAX_V2: Final = 32_767


class Record(msgspec.Struct, kw_only=True, gc=False):
    """A message with everything that the store knows about it. `properties` and the hosts stay as they lie in the record."""

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


def topic_bytes_max(magic: int) -> int:
    return TOPIC_BYTES_MAX if magic == MAGIC else TOPIC_BYTES_MAX_V2


def body_crc32(body: bytes | memoryview) -> int:
    return crc32(body) & 0x7FFF_FFFF


def encode_record(record: Record) -> bytes:
    """The record's bytes. CRC, size and the bits of the hosts' kinds are set here from what they describe."""
    try:
        topic = record.topic.encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"A topic has text that is not Unicode: {error}.") from error
    if record.magic not in (MAGIC, MAGIC_V2):
        raise RecordError(f"A record's magic is {record.magic & 0xFFFF_FFFF:#x}; it is {_MAGICS_SHOWN}.")
    if not 0 < len(topic) <= topic_bytes_max(record.magic):
        raise RecordError(f"A topic of {len(topic)} bytes does not fit in a record: it has 1 to {topic_bytes_max(record.magic)}.")
    if len(record.properties) > PROPERTIES_BYTES_MAX:
        raise RecordError(f"Properties of {len(record.properties)} bytes are more than the {PROPERTIES_BYTES_MAX} allowed.")
    for host in (record.born_host, record.store_host):
        if len(host) not in (V4_BYTES, V6_BYTES):
            raise RecordError(f"A host has {len(host)} bytes; it is {V4_BYTES} (IPv4) or {V6_BYTES} (IPv6).")
    sys_flag = record.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    sys_flag |= BORN_HOST_V6 if is_v6(record.born_host) else 0
    sys_flag |= STORE_HOST_V6 if is_v6(record.store_host) else 0
    try:
        parts = [
            b"",
            record.born_host,
            _INT64.pack(record.store_timestamp),
            record.store_host,
            _MIDDLE.pack(record.reconsume_times, record.prepared_transaction_offset, len(record.body)),
            record.body,
            bytes((len(topic),)) if record.magic == MAGIC else _TOPIC_LENGTH_V2.pack(len(topic)),
            topic,
            _INT16.pack(len(record.properties)),
            record.properties,
        ]
        parts[0] = _HEAD.pack(
            _HEAD.size + sum(map(len, parts)),
            record.magic,
            body_crc32(record.body),
            record.queue_id,
            record.flag,
            record.queue_offset,
            record.physical_offset,
            sys_flag,
            record.born_timestamp,
        )
    except struct.error as error:
        raise RecordError(f"A message for topic '{record.topic}' does not fit in a record: {error}.") from error
    return b"".join(parts)


_MAGICS_SHOWN = f"{MAGIC & 0xFFFF_FFFF:#x} or {MAGIC_V2 & 0xFFFF_FFFF:#x}"


def decode_record(data: bytes | memoryview, at: int = 0, *, check_crc: bool = True) -> Record:
    """The record that starts at `at`. Every length is checked against the record's size before it is used."""
    available = len(data) - at
    if available < FIXED_BYTES_MIN:
        raise RecordError(f"{available} bytes at {at} are fewer than the {FIXED_BYTES_MIN} of the smallest record.")
    size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp = _HEAD.unpack_from(data, at)
    if magic not in (MAGIC, MAGIC_V2):
        raise RecordError(f"The magic at {at} is {magic & 0xFFFF_FFFF:#x}; it is {_MAGICS_SHOWN}.")
    if not FIXED_BYTES_MIN <= size <= available:
        raise RecordError(f"The record at {at} says it has {size} bytes; {available} are there.")
    end = at + size
    born_end = at + _HEAD.size + (V6_BYTES if sys_flag & BORN_HOST_V6 else V4_BYTES)
    store_host_at = born_end + _INT64.size
    store_end = store_host_at + (V6_BYTES if sys_flag & STORE_HOST_V6 else V4_BYTES)
    body_at = store_end + _MIDDLE.size
    _fits(body_at + _TAIL_BYTES, end, at, "fixed fields")
    reconsume_times, prepared_offset, body_bytes = _MIDDLE.unpack_from(data, store_end)
    body_end = body_at + body_bytes
    length_bytes = 1 if magic == MAGIC else 2
    _fits(body_end + length_bytes if body_bytes >= 0 else -1, end, at, "body")
    topic_bytes = data[body_end] if magic == MAGIC else _TOPIC_LENGTH_V2.unpack_from(data, body_end)[0]
    topic_at = body_end + length_bytes
    properties_at = topic_at + topic_bytes + _INT16.size
    _fits(properties_at if 0 < topic_bytes <= topic_bytes_max(magic) else -1, end, at, "topic")
    (properties_bytes,) = _INT16.unpack_from(data, properties_at - _INT16.size)
    if properties_bytes < 0 or properties_at + properties_bytes != end:
        raise RecordError(f"The record at {at} has {properties_bytes} bytes of properties; they do not end where it does.")
    body = bytes(data[body_at:body_end])
    if check_crc and crc != body_crc32(body):
        raise RecordError(f"The body of the record at {at} has CRC {body_crc32(body)}; the record says {crc}.")
    try:
        topic = str(data[topic_at : topic_at + topic_bytes], "utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"The topic of the record at {at} is not UTF-8: {error}.") from error
    return Record(
        topic=topic,
        body=body,
        properties=bytes(data[properties_at:end]),
        queue_id=queue_id,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=bytes(data[at + _HEAD.size : born_end]),
        store_timestamp=_INT64.unpack_from(data, born_end)[0],
        store_host=bytes(data[store_host_at:store_end]),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_offset,
        body_crc=crc,
        magic=magic,
    )


def _fits(stop: int, end: int, at: int, what: str) -> None:
    if not 0 <= stop <= end:
        raise RecordError(f"The {what} of the record at {at} does not fit in the record.")


def iterate_records(data: bytes | memoryview, *, check_crc: bool = True) -> Iterator[Record]:
    """The records of a pull's answer, which are simply put one after another."""
    at = 0
    while at < len(data):
        record = decode_record(data, at, check_crc=check_crc)
        at += record_size(record)
        yield record


def record_size(record: Record) -> int:
    """The bytes that the record takes, without encoding it."""
    return (
        FIXED_BYTES_MIN
        + (len(record.born_host) - V4_BYTES)
        + (len(record.store_host) - V4_BYTES)
        + len(record.body)
        + (0 if record.magic == MAGIC else 1)
        + len(record.topic.encode())
        + len(record.properties)
    )
