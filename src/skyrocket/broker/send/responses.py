"""Responses to successful sends, encoded straight to bytes. A `Command` in between would cost more than the rest of the answer.

A response is made of pieces, which stay the same until the settings change, with the values of one send between them:

    {"code":0,"extFields":{"queueId":"  3  ","transactionId":"  7F00…  ","msgId":"  0A00…  ","TRACE_ON":…  17  "},…        JSON
    opaque  …  msgId  length 0A00…  queueId  length 3  queueOffset  length 17  transactionId  length 7F00…  MSG_REGION …    binary

Values are written as they are, so they must not need escapes in JSON: the caller has checked that.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol import versions
from skyrocket.protocol.command import RESPONSE_FLAG
from skyrocket.protocol.frame import PREFIX, Serialization
from skyrocket.protocol.language import Language

# Serialization, queue id, unique key, the physical offset (or, for a batch, all offset ids), recall handle, queue offset, opaque.
AnswerRow = tuple[int, int, bytes, int | bytes, bytes | None, int, int]
Pieces = tuple[bytes, ...]

_BINARY_MARK: Final = Serialization.ROCKETMQ << 24  # above the length of the header, in a frame's prefix
_BINARY_HEAD: Final = struct.Struct(">hbhiiii")  # code, language, version, opaque, flag, length of the remark, and of the fields
_LENGTH: Final = struct.Struct(">i")
_NAME_LENGTH: Final = struct.Struct(">h")


@lru_cache(maxsize=16)
def _json_pieces(region: str, trace_on: bool) -> Pieces:
    trace = "true" if trace_on else "false"
    return (
        b'{"code":0,"extFields":{"queueId":"',
        b'","transactionId":"',
        b'","msgId":"',
        b'",',
        b'"recallHandle":"',  # this and the next: only with a recall handle
        b'",',
        f'"TRACE_ON":"{trace}","MSG_REGION":"{region}","queueOffset":"'.encode(),
        b'"},"flag":%d,"language":"%b","opaque":' % (RESPONSE_FLAG, Language.PYTHON.name.encode()),
        b',"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT,
    )


@lru_cache(maxsize=16)
def _binary_pieces(region: str, trace_on: bool) -> Pieces:
    """Return the fixed part of a binary header, the names before the values, and the fields behind them."""
    head = _BINARY_HEAD.pack(0, Language.PYTHON, versions.CURRENT, 0, RESPONSE_FLAG, 0, 0)
    names = [_name(name) for name in (b"msgId", b"queueId", b"queueOffset", b"transactionId", b"recallHandle")]
    trace = _prefix_length(b"true" if trace_on else b"false")
    return head, *names, _name(b"MSG_REGION") + _prefix_length(region.encode()) + _name(b"TRACE_ON") + trace


def _name(name: bytes) -> bytes:
    return _NAME_LENGTH.pack(len(name)) + name


def _prefix_length(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def send_response(
    opaque: int,
    queue_id: int,
    queue_offset: int,
    ids: tuple[bytes, bytes],
    region: str,
    trace_on: bool,
    recall_handle: str | None = None,
) -> bytes:
    """Encode the SUCCESS response to one send, in JSON.

    `ids` are the message's offset id (for a batch, all of them with commas in between) and its unique key.
    """
    handle = None if recall_handle is None else recall_handle.encode()
    message_id, unique_key = ids
    row = (Serialization.JSON, queue_id, unique_key, message_id, handle, queue_offset, opaque)
    return _json_frame(row, message_id, _json_pieces(region, trace_on))


@lru_cache(maxsize=16)
def response_pieces(region: str, trace_on: bool) -> tuple[Pieces, Pieces]:
    """Return the pieces of SUCCESS responses in JSON and in binary, for `fill_frames`."""
    return _json_pieces(region, trace_on), _binary_pieces(region, trace_on)


def _fill_frames(rows: Sequence[AnswerRow], id_prefix: bytes, json: Pieces, binary: Pieces) -> bytes:
    """Encode the SUCCESS responses to many sends: one frame for each row, with its values between the pieces.

    `id_prefix` is the store host in hexadecimal, with which every offset id of this broker begins.
    """
    frames = []
    for row in rows:
        place = row[3]
        ids = place if isinstance(place, bytes) else b"%b%016X" % (id_prefix, place)
        frames.append(_binary_frame(row, ids, binary) if row[0] else _json_frame(row, ids, json))
    return b"".join(frames)


def _json_frame(row: AnswerRow, ids: bytes, pieces: Pieces) -> bytes:
    _, queue_id, unique_key, _, handle, queue_offset, opaque = row
    start, key_name, id_name, id_end, handle_name, handle_end, offset_name, opaque_name, end = pieces
    recall = b"" if handle is None else handle_name + handle + handle_end
    values = (start, queue_id, key_name, unique_key, id_name, ids, id_end, recall, offset_name, queue_offset, opaque_name, opaque)
    header = b"%b%d%b%b%b%b%b%b%b%d%b%d%b" % (*values, end)
    return PREFIX.pack(len(header) + 4, len(header)) + header


def _binary_frame(row: AnswerRow, ids: bytes, pieces: Pieces) -> bytes:
    _, queue_id, unique_key, _, handle, queue_offset, opaque = row
    head, id_name, queue_name, offset_name, key_name, handle_name, more = pieces
    values = [(id_name, ids), (queue_name, b"%d" % queue_id), (offset_name, b"%d" % queue_offset), (key_name, unique_key)]
    if handle is not None:
        values.append((handle_name, handle))
    fields = b"".join([name + _prefix_length(value) for name, value in values]) + more
    code, language, version, _, flag, remark_bytes, _ = _BINARY_HEAD.unpack(head)
    header = _BINARY_HEAD.pack(code, language, version, opaque, flag, remark_bytes, len(fields)) + fields
    return PREFIX.pack(len(header) + 4, _BINARY_MARK | len(header)) + header


fill_frames = twin("send_loop", _fill_frames)
