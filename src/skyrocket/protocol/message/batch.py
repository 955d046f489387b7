"""Batches: several messages for one queue in the body of one send request. The messages follow each other, each in this layout:

     0        4        8        12       16       20         20+B   22+B
     +--------+--------+--------+--------+--------+----------+------+---------------+
     | size   | magic  | CRC    | flag   | B      | body,    | P    | properties,   |
     |        |        |        |        |        | B bytes  |      | P bytes       |
     +--------+--------+--------+--------+--------+----------+------+---------------+
      int32    int32    int32    int32    int32               int16

Every client writes magic and CRC as 0, and no server reads them. All other fields of a record (topic, queue, hosts, timestamps,
sys flag) are the same for the whole batch and come from the request's header; functions here take them as a template record.
The properties in the request's header belong to the request, and are not stored with any message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from skyrocket.compiled import twin
from skyrocket.protocol.crc import crc32
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.limits import BATCH_BYTES_MAX, PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import UNIQUE_KEY
from skyrocket.protocol.message.record import HOST_BITS, Record, layout_for, properties_length, topic_field

_FIXED = struct.Struct(">iiiii")  # size, magic, CRC, flag, body length
_INT16 = struct.Struct(">h")
ENTRY_BYTES_MIN = _FIXED.size + _INT16.size


class BatchEntry(NamedTuple):
    """The fields in which the messages of a batch differ."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(entries: Iterable[tuple[bytes, bytes, int]], *, limit: int = BATCH_BYTES_MAX) -> bytes:
    """Encode the body of a batch send, from `BatchEntry` values or plain tuples."""
    return b"".join(batch_pieces(entries, limit=limit))


def batch_pieces(entries: Iterable[tuple[bytes, bytes, int]], *, limit: int = BATCH_BYTES_MAX) -> list[bytes]:
    """Encode the body of a batch send as a list of pieces, which the caller joins or writes one by one."""
    parts: list[bytes] = []
    total_bytes, pack, length = 0, _FIXED.pack, _INT16.pack
    try:
        for body, properties, flag in entries:
            size = ENTRY_BYTES_MIN + len(body) + len(properties)
            total_bytes += size
            if total_bytes > limit:
                raise RecordError(f"A batch of {total_bytes} bytes or more is larger than the {limit} allowed.")
            if len(properties) > PROPERTIES_BYTES_MAX:
                properties_length(properties)
            parts += (pack(size, 0, 0, flag, len(body)), body, length(len(properties)), properties)
    except struct.error as error:
        raise RecordError(f"Message {len(parts) // 4} does not fit in a batch: {error}.") from error
    if not parts:
        raise RecordError("A batch has no message.")
    return parts


class Packable(Protocol):
    """The part of a message that a batch needs."""

    @property
    def body(self) -> bytes: ...

    @property
    def flag(self) -> int: ...


def pack_batch(messages: Sequence[Packable], properties: Sequence[str], ids: Sequence[str]) -> list[bytes]:
    """Encode messages as the pieces of a batch send's body.

    `properties` has the encoded properties of each message without the unique id, and `ids` the unique ids.
    """
    pieces = pack_messages(messages, properties, ids, BATCH_BYTES_MAX)
    return batch_pieces(_entries(messages, properties, ids)) if pieces is None else pieces


def _pack_messages(messages: Sequence[Packable], properties: Sequence[str], ids: Sequence[str], limit: int) -> list[bytes] | None:
    return batch_pieces(_entries(messages, properties, ids), limit=limit)


def _entries(messages: Sequence[Packable], properties: Sequence[str], ids: Sequence[str]) -> list[tuple[bytes, bytes, int]]:
    return [
        (message.body, f"{UNIQUE_KEY}\x01{unique_id}\x02{own}".encode(), message.flag)
        for message, own, unique_id in zip(messages, properties, ids, strict=True)
    ]


pack_messages = twin("batch", _pack_messages)


def decode_batch(data: bytes, *, limit: int = BATCH_BYTES_MAX) -> list[BatchEntry]:
    """Decode the body of a batch send. Raise RecordError if it is malformed, empty or larger than `limit`."""
    end = len(data)
    if end > limit:
        raise RecordError(f"A batch of {end} bytes is larger than the {limit} allowed.")
    entries: list[BatchEntry] = []
    at = 0
    while at < end:
        body_at = at + _FIXED.size
        if body_at > end:
            raise RecordError(
                f"{end - at} bytes at {at} are fewer than the {ENTRY_BYTES_MIN} of the smallest message in a batch."
            )
        size, _, _, flag, body_bytes = _FIXED.unpack_from(data, at)
        body_end = body_at + body_bytes
        properties_at = body_end + _INT16.size
        if body_bytes < 0 or properties_at > end:
            raise RecordError(f"The body of the message at {at} has {body_bytes} bytes, which do not fit in the batch.")
        stop = properties_at + _INT16.unpack_from(data, body_end)[0]
        if not properties_at <= stop <= end:
            raise RecordError(
                f"The properties of the message at {at} have {stop - properties_at} bytes and do not fit in the batch."
            )
        if at + size != stop:
            raise RecordError(f"The message at {at} says it has {size} bytes, but its parts have {stop - at}.")
        entries.append(BatchEntry(data[body_at:body_end], data[properties_at:stop], flag))
        at = stop
    if not entries:
        raise RecordError("A batch has no message.")
    return entries


def batch_records(entries: Iterable[BatchEntry], like: Record) -> list[Record]:
    """Return the messages of a batch as records at consecutive offsets of the queue and the log, starting with those of `like`.

    Body, properties, flag, CRC and offsets differ for each message; the other fields are those of `like`. A batch has no
    transaction.
    """
    layout, host_bits = layout_for(like.born_host, like.store_host)
    outside_bytes = layout.size + len(topic_field(like.topic, like.magic)) + _INT16.size
    sys_flag = like.sys_flag & ~HOST_BITS | host_bits
    queue_offset, physical_offset = like.queue_offset, like.physical_offset
    records: list[Record] = []
    for body, properties, flag in entries:
        record = Record(
            like.topic,
            body,
            properties,
            like.queue_id,
            queue_offset,
            physical_offset,
            flag,
            sys_flag,
            like.born_timestamp,
            like.born_host,
            like.store_timestamp,
            like.store_host,
            like.reconsume_times,
            0,
            crc32(body) & 0x7FFF_FFFF,
            like.magic,
        )
        records.append(record)
        queue_offset += 1
        physical_offset += outside_bytes + len(body) + len(properties)
    return records


def encode_batch_records(entries: Iterable[BatchEntry], like: Record, bytes_between: int = 0) -> list[bytes]:
    """Encode the messages of a batch as consecutive records, without making a `Record` for each. The broker uses this.

    `bytes_between` lie between two records in the log.
    """
    layout, host_bits = layout_for(like.born_host, like.store_host)
    topic = topic_field(like.topic, like.magic)
    pack, length, join = layout.pack, _INT16.pack, b"".join
    outside_bytes = layout.size + len(topic) + _INT16.size
    magic, queue_id, sys_flag = like.magic, like.queue_id, like.sys_flag & ~HOST_BITS | host_bits
    shared = (like.born_timestamp, like.born_host, like.store_timestamp, like.store_host, like.reconsume_times, 0)
    queue_offset, physical_offset = like.queue_offset, like.physical_offset
    encoded: list[bytes] = []
    try:
        for body, properties, flag in entries:
            body_bytes = len(body)
            size = outside_bytes + body_bytes + len(properties)
            crc = crc32(body) & 0x7FFF_FFFF
            fixed = pack(size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, *shared, body_bytes)
            encoded.append(join((fixed, body, topic, length(len(properties)), properties)))
            queue_offset += 1
            physical_offset += size + bytes_between
    except struct.error as error:
        raise RecordError(
            f"Message {len(encoded)} of a batch for topic '{like.topic}' does not fit in a record: {error}."
        ) from error
    return encoded
