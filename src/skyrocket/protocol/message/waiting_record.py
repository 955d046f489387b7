"""Parse waiting records: half, delayed and timed messages under a system topic, which move to their own topic later.

Only the fields that the move needs are decoded, and the properties are split into shape and key (`unique_key`). A peer can
point to any bytes of the log, so every length is checked.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES
from skyrocket.protocol.message.record import MAGIC, MAGIC_V2, SYS_FLAG_AT, topic_field
from skyrocket.protocol.message.unique_key import shape_of

_HOST_BITS_AT, _HOST_BITS_SHIFT = SYS_FLAG_AT + 3, 4
_LENGTH_BYTES = 2
_SMALLEST = 88

# Size, magic, queue offset, physical offset, born and store timestamp, length of the body; by the kinds of the two hosts.
_LAYOUTS: Final = tuple(
    struct.Struct(f">ii12xqq4xq{born_bytes}xq{store_bytes}x12xi")
    for store_bytes in (V4_BYTES, V6_BYTES)
    for born_bytes in (V4_BYTES, V6_BYTES)
)

# The record, the shape of its properties, its unique key or None, queue offset, physical offset, born timestamp, store timestamp.
WaitingRecord = tuple[memoryview, bytes, bytes | None, int, int, int, int]


def _parse_waiting_records(records: Sequence[memoryview | None], topic: str) -> list[WaitingRecord | None]:
    """Parse each record. The result is None for a record that is missing, malformed or of another topic."""
    topics = {magic: topic_field(topic, magic) for magic in (MAGIC, MAGIC_V2)}
    return [None if record is None else _parse_waiting_record(record, topics) for record in records]


parse_waiting_records = twin("readdress", _parse_waiting_records)


def _parse_waiting_record(record: memoryview, topics: dict[int, bytes]) -> WaitingRecord | None:
    layout = _LAYOUTS[record[_HOST_BITS_AT] >> _HOST_BITS_SHIFT & 3] if len(record) >= _SMALLEST else None
    if layout is None or len(record) < layout.size:
        return None
    size, magic, queue_offset, place, born_ms, stored_ms, body_bytes = layout.unpack_from(record)
    topic_bytes = topics.get(magic)
    if size != len(record) or topic_bytes is None or not 0 <= body_bytes <= size:
        return None
    topic_at = layout.size + body_bytes
    properties_at = topic_at + len(topic_bytes) + _LENGTH_BYTES
    properties = bytes(record[properties_at:])
    length_at = properties_at - _LENGTH_BYTES
    if record[topic_at:length_at] != topic_bytes or int.from_bytes(record[length_at:properties_at]) != len(properties):
        return None
    return (record, *shape_of(properties), queue_offset, place, born_ms, stored_ms)
