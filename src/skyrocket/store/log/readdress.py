"""Readdress records: write a delayed, timed or half message of the log again, under its own topic and queue.

Body, CRC, hosts, flag and times are copied as they lie in the record. Only queue, offsets, store time and properties change. All
requests of a turn become one append (`readdress_records`). The general path (`readdress_record` and `MessageStore.append`) stores
the same bytes; it takes over when the records do not fit into the current segment, and for rare records.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from skyrocket.compiled import twin
from skyrocket.protocol.hosts import V4_BYTES, V6_BYTES
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.record import PHYSICAL_OFFSET_AT, SYS_FLAG_AT, magic_for, rewrite_address, topic_field
from skyrocket.protocol.message.unique_key import MARK
from skyrocket.protocol.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_PREPARED
from skyrocket.store.message import AppendPosition, AppendRequest, DispatchFields

_LENGTH = struct.Struct(">h")
_SYS_FLAG = struct.Struct(">i")
_MAGIC_LAST_AT, _MAGIC_V1_LAST = 7, 0xA7  # the two magics differ in their last byte
_HOST_BITS_AT, _HOST_BITS_SHIFT = SYS_FLAG_AT + 3, 4
_UNQUEUED_BIT: Final = TRANSACTION_PREPARED  # set for half messages and for rollbacks

# Indexed by the kinds of the two hosts. Each row: how to read a record (CRC, flag, physical offset, sys flag, born time and host,
# store host and reconsume times, body length), how to write everything before the body, and how many bytes that takes.
_LAYOUTS: Final = tuple(
    (
        struct.Struct(f">8x4s4x4s8xqi{8 + born_bytes}s8x{store_bytes + 4}s8xi").unpack_from,
        struct.Struct(f">ii4si4sqqi{8 + born_bytes}sq{store_bytes + 4}sqi").pack,
        72 + born_bytes + store_bytes,
    )
    for store_bytes in (V4_BYTES, V6_BYTES)
    for born_bytes in (V4_BYTES, V6_BYTES)
)


class Address(NamedTuple):
    """The topic and queue that records go to, and their keys there. Records with equal properties share one address."""

    topic: str
    queue_id: int
    magic: int
    topic_bytes: bytes  # length and name, as encoded in a record
    tags_code: int
    keys: tuple[str, ...]  # the unique key first; MARK stands for a key that differs between records
    properties: bytes | None = None  # replace the record's own; MARK stands for the unique key
    commits: bool = False  # turns a half message into a committed one

    @classmethod
    def of(
        cls, topic: str, queue_id: int, code: int, keys: tuple[str, ...], properties: bytes | None = None, commits: bool = False
    ) -> Address:
        magic = magic_for(topic)
        return cls(topic, queue_id, magic, topic_field(topic, magic), code, keys, properties, commits)


# A whole, sound record; its address; the unique key to put in place of MARK, if any; bytes to append to its properties.
ReaddressRequest = tuple[memoryview, Address, bytes | None, bytes]


# The arguments of `append_encoded`: the records, what queues and index need of each, and the next free offset of each queue.
ReaddressedRecords = tuple[bytes, list[DispatchFields], dict[tuple[str, int], int]]


def _readdress_records(
    requests: Sequence[ReaddressRequest], opening: AppendPosition, next_offset: Callable[[tuple[str, int]], int]
) -> ReaddressedRecords | None:
    """Encode records for their new addresses, ready to append. Return None when the general path must store them."""
    position, room_bytes, timestamp, header_bytes = opening
    stop = position + room_bytes
    parts: list[bytes | memoryview] = []
    dispatches: list[DispatchFields] = []
    taken: dict[tuple[str, int], int] = {}
    for record, (topic, queue_id, magic, topic_bytes, code, keys, properties, commits), key, more in requests:
        unpack, pack, fixed_bytes = _LAYOUTS[record[_HOST_BITS_AT] >> _HOST_BITS_SHIFT & 3]
        crc, flag, place, sys_flag, birth, host, body_bytes = unpack(record)
        body_end = fixed_bytes + body_bytes
        kept = record[_properties_at(record, body_end) :] if properties is None else properties
        if key is not None:
            keys = (key.decode(), *keys[1:])  # noqa: PLW2901
            kept = kept if properties is None else properties.replace(MARK, key)
        properties_bytes = len(kept) + len(more)
        size = body_end + len(topic_bytes) + _LENGTH.size + properties_bytes
        if commits:
            sys_flag = sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        if position + size > stop or sys_flag & _UNQUEUED_BIT or properties_bytes > PROPERTIES_BYTES_MAX:
            return None
        queue = (topic, queue_id)
        queue_offset = taken.get(queue)
        if queue_offset is None:
            queue_offset = next_offset(queue)
        taken[queue] = queue_offset + 1
        before = place if commits else 0
        head = pack(
            size, magic, crc, queue_id, flag, queue_offset, position, sys_flag, birth, timestamp, host, before, body_bytes
        )
        parts += (head, record[fixed_bytes:body_end], topic_bytes, _LENGTH.pack(properties_bytes), kept, more)
        dispatches.append((topic, queue_id, queue_offset, position, size, code, timestamp, keys, sys_flag))
        position += size + header_bytes
    return b"".join(parts), dispatches, taken


readdress_records = twin("readdress", _readdress_records)


def _properties_at(record: memoryview, body_end: int) -> int:
    """Return where the properties start, behind their length."""
    if record[_MAGIC_LAST_AT] == _MAGIC_V1_LAST:
        return body_end + 1 + record[body_end] + _LENGTH.size
    return body_end + 2 + record[body_end] * 256 + record[body_end + 1] + _LENGTH.size


def readdress_record(request: ReaddressRequest) -> AppendRequest:
    """Encode one record for its new address, as a request for `MessageStore.append`."""
    record, address, key, more = request
    topic, queue_id, _, _, code, keys, properties, commits = address
    (sys_flag,) = _SYS_FLAG.unpack_from(record, SYS_FLAG_AT)
    transaction = bytes(8)
    if commits:
        sys_flag = sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
        transaction = bytes(record[PHYSICAL_OFFSET_AT:SYS_FLAG_AT])
    if key is not None:
        keys = (key.decode(), *keys[1:])
        properties = None if properties is None else properties.replace(MARK, key)
    encoded = rewrite_address(
        record, topic, queue_id, properties=properties, more=more, sys_flag=sys_flag, transaction=transaction
    )
    return AppendRequest(topic, queue_id, encoded, code, keys, sys_flag)
