"""Batches: several messages for one queue in the body of one send request. Messages stand one after another, each so:

     0        4        8        12       16       20         20+B   22+B
     +--------+--------+--------+--------+--------+----------+------+---------------+
     | size   | magic  | CRC    | flag   | B      | body,    | P    | properties,   |
     |        |        |        |        |        | B bytes  |      | P bytes       |
     +--------+--------+--------+--------+--------+----------+------+---------------+
      int32    int32    int32    int32    int32               int16

Magic and CRC are 0 as every client writes them, and nobody reads them. Everything else that a record needs (topic, queue, hosts,
timestamps, sys flag) is the same for the whole batch, stands in the request's header, and is given here as a record that the
messages are to be like. The properties in the request's header belong to the request: they are not stored with any message.
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
    """One message of a batch: what differs from its neighbours."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


def encode_batch(entries: Iterable[tuple[bytes, bytes, int]], *, limit: int = BATCH_BYTES_MAX) -> bytes:
    """The body of a batch send: of entries, or of as much in plain tuples."""
    return b"".join(batch_pieces(entries, limit=limit))


def batch_pieces(entries: Iterable[tuple[bytes, bytes, int]], *, limit: int = BATCH_BYTES_MAX) -> list[bytes]:
    """The same, not put together yet."""
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
    """A message, as far as a batch needs it."""

    @property
    def body(self) -> bytes: ...

    @property
    def flag(self) -> int: ...


def batch_of_messages(messages: Sequence[Packable], properties: Sequence[str], ids: Sequence[str]) -> list[bytes]:
    """The body of a batch send, in pieces: of messages, and as many properties (but for the unique ids) and unique ids."""
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
    """The messages of a batch send's body."""
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
            raise RecordError(f"The message at {at} says it has {size} bytes; its parts have {stop - at}.")
        entries.append(BatchEntry(data[body_at:body_end], data[properties_at:stop], flag))
        at = stop
    if not entries:
        raise RecordError("A batch has no message.")
    return entries


def batch_records(entries: Iterable[BatchEntry], like: Record) -> list[Record]:
    """The batch as records in consecutive places of a queue and of the log, from `like`'s on.

    Body, properties, flag, CRC and places are each message's own; the rest is `like`'s. A batch carries no transaction.
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


def encode_batch_records(entries: Iterable[BatchEntry], like: Record) -> list[bytes]:
    """The same records as bytes, ready to be put one after another, without a `Record` for each: the broker's way."""
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
            physical_offset += size
    except struct.error as error:
        raise RecordError(
            f"Message {len(encoded)} of a batch for topic '{like.topic}' does not fit in a record: {error}."
        ) from error
    return encoded
