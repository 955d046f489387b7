"""The binary form of PUSH (51004) between our own nodes: entries travel as they lie in a data file, without JSON and Base64.

Request; integers are big-endian, text is UTF-8:

     0      2     3      4       12       20      24      28
     +------+-----+------+-------+--------+-------+-------+--------------------------------+------------------------+
     | "SP" | ver | type | term  | commit | count | crc32 | group, leader, sender, target  | count entries          |
     +------+-----+------+-------+--------+-------+-------+--------------------------------+------------------------+
      2 B    u8    u8     i64     i64      i32     u32     each: u8 length, text            each: 48 B header, body

    The type is 0 APPEND, 1 COMMIT, 2 COMPARE, 3 TRUNCATE. The CRC-32 covers everything behind it.

An entry lies here as in DLedger's data files (`protocol/ledger_entry.py`).

Response:

     0      2     3         4      8      16      24      28      36    44
     +------+-----+---------+------+------+-------+-------+-------+-----+
     | "SA" | ver | learner | code | term | index | count | begin | end |
     +------+-----+---------+------+------+-------+-------+-------+-----+
      2 B    u8    u8: 0, 1  i32    i64    i64     i32     i64     i64

**Negotiation.** A leader of ours puts `binaryPush: 1` into its heartbeats. Apache's nodes ignore a field that they do not know,
and answer code and term. A follower of ours answers `binaryPush: 1`. From then on, until the connection closes, the leader may
push in this form. The first byte tells the forms apart: JSON begins with `{`. A response has the form of its request.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from skyrocket.protocol.bodies.dledger import (
    DLedgerEntry,
    PushEntryRequest,
    PushEntryResponse,
    PushType,
)
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.ledger_entry import ENTRY_HEADER, ENTRY_HEADER_BYTES

VERSION: Final = 1

_REQUEST: Final = struct.Struct(">2sBBqqiI")
_RESPONSE: Final = struct.Struct(">2sBBiqqiqq")
_REQUEST_MARK: Final = b"SP"
_RESPONSE_MARK: Final = b"SA"
_TYPES: Final = (PushType.APPEND, PushType.COMMIT, PushType.COMPARE, PushType.TRUNCATE)


def encode_entry(entry: DLedgerEntry) -> bytes:
    """Return the bytes of an entry as a data file has them."""
    header = ENTRY_HEADER.pack(
        entry.magic,
        entry.size,
        entry.index,
        entry.term,
        entry.pos,
        entry.channel,
        entry.chain_crc,
        entry.body_crc,
        len(entry.body),
    )
    return header + entry.body


def decode_entry(data: bytes, offset: int) -> tuple[DLedgerEntry, int]:
    """Read the entry at `offset`. Return it, and the offset behind it."""
    start = offset + ENTRY_HEADER_BYTES
    if start > len(data):
        raise BodyError(f"The header of an entry at byte {offset} ends behind the body of {len(data)} bytes.")
    magic, size, index, term, pos, channel, chain_crc, body_crc, body_size = ENTRY_HEADER.unpack_from(data, offset)
    end = start + body_size
    if body_size < 0 or end > len(data) or size != ENTRY_HEADER_BYTES + body_size:
        raise BodyError(f"Entry {index} says size {size} and body size {body_size}; {len(data) - start} bytes are left.")
    entry = DLedgerEntry(
        magic=magic,
        size=size,
        index=index,
        term=term,
        pos=pos,
        channel=channel,
        chain_crc=chain_crc,
        body_crc=body_crc,
        body=data[start:end],
    )
    return entry, end


def encode_push(push: PushEntryRequest) -> bytes:
    """Write a push in the binary form."""
    entries = push.entries
    return encode_push_of(push, len(entries), b"".join([encode_entry(entry) for entry in entries]))


def encode_push_of(push: PushEntryRequest, count: int, entries: bytes | memoryview) -> bytes:
    """Like `encode_push`, for `count` entries that are already bytes, as they lie in a data file."""
    names = bytearray()
    for name in (push.group, push.leader_id, push.local_id, push.remote_id):
        text = (name or "").encode()
        if len(text) > 255:
            raise BodyError(f"The name '{name}' has {len(text)} bytes, and a binary push has room for 255.")
        names.append(len(text))
        names += text
    kind, crc = _TYPES.index(push.type), zlib.crc32(entries, zlib.crc32(names))
    head = _REQUEST.pack(_REQUEST_MARK, VERSION, kind, push.term, push.commit_index, count, crc)
    return b"".join((head, names, entries))


def is_binary(data: bytes) -> bool:
    """Whether the body of a PUSH, or of a response to it, has the binary form."""
    return data[:1] == b"S"


def decode_push(data: bytes) -> PushEntryRequest:
    """Read a push in either form. Raise BodyError if it is damaged or of a later version."""
    if not is_binary(data):
        return decode(data, PushEntryRequest)
    if len(data) < _REQUEST.size:
        raise BodyError(f"A binary push has at least {_REQUEST.size} bytes; this one has {len(data)}.")
    mark, version, kind, term, commit_index, count, crc = _REQUEST.unpack_from(data)
    if mark != _REQUEST_MARK or version != VERSION or kind >= len(_TYPES):
        raise BodyError(f"Mark {mark!r}, version {version}, type {kind} is no binary push that this node knows.")
    if zlib.crc32(memoryview(data)[_REQUEST.size :]) != crc:
        raise BodyError("A binary push was damaged on its way: its CRC does not fit.")
    offset = _REQUEST.size
    names: list[str | None] = []
    for _ in range(4):
        if offset >= len(data) or offset + 1 + data[offset] > len(data):
            raise BodyError("A name in a binary push ends behind the body.")
        end = offset + 1 + data[offset]
        try:
            names.append(data[offset + 1 : end].decode() or None)
        except UnicodeDecodeError as error:
            raise BodyError(f"A name in a binary push is not UTF-8: {error}.") from error
        offset = end
    entries: list[DLedgerEntry] = []
    while offset < len(data):
        entry, offset = decode_entry(data, offset)
        entries.append(entry)
    if len(entries) != count:
        raise BodyError(f"A binary push says that it has {count} entries, and has {len(entries)}.")
    group, leader_id, local_id, remote_id = names
    push = PushEntryRequest(
        group=group,
        leader_id=leader_id,
        local_id=local_id,
        remote_id=remote_id,
        term=term,
        commit_index=commit_index,
        type=_TYPES[kind],
    )
    push.carry(entries, batch=count > 1)
    return push


def encode_push_response(response: PushEntryResponse, *, binary: bool) -> bytes:
    """Write the response to a push, in the form of its request."""
    if not binary:
        return encode(response)
    index = -1 if response.index is None else response.index
    counts = (response.code, response.term, index, response.count, response.begin_index, response.end_index)
    return _RESPONSE.pack(_RESPONSE_MARK, VERSION, 1 if response.learner else 0, *counts)


def decode_push_response(data: bytes) -> PushEntryResponse:
    """Read the response to a push in either form."""
    if not is_binary(data):
        return decode(data, PushEntryResponse)
    if len(data) != _RESPONSE.size:
        raise BodyError(f"The binary response to a push has {_RESPONSE.size} bytes; this one has {len(data)}.")
    mark, version, learner, code, term, index, count, begin, end = _RESPONSE.unpack(data)
    if mark != _RESPONSE_MARK or version != VERSION:
        raise BodyError(f"Mark {mark!r}, version {version} is no response to a push that this node knows.")
    return PushEntryResponse(
        code=code,
        term=term,
        index=None if index == -1 else index,
        count=count,
        begin_index=begin,
        end_index=end,
        learner=True if learner else None,
    )
