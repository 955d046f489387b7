"""Decode the header of a send request (10, 310, 320) in one step. In JSON this takes a third of the time of the general path.

The result equals that of `command` followed by the typed header. A header that fails to decode here goes to the general path,
which reports the error.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from skyrocket.protocol.command import ONEWAY_FLAG, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.header import Int32
from skyrocket.protocol.headers import SendMessageRequestHeader, SendMessageRequestHeaderV2
from skyrocket.protocol.requests import RequestCode

SEND_CODES: Final = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE)
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # of the JSON decoders

_CODES: Final = frozenset(map(int, SEND_CODES))
_SHORT_NAME_CODES: Final = _CODES - {int(RequestCode.SEND_MESSAGE)}
_FLAGS: Final = (0, ONEWAY_FLAG)  # a response is no send
_BINARY_CODE: Final = struct.Struct(">h")


class SendCommandHeader(msgspec.Struct, gc=False):
    """A header with typed fields. Requests with another code can have the same fields, so check `code`."""

    code: Int32
    header: SendMessageRequestHeaderV2 = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = "OTHER"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _OldSendCommandHeader(msgspec.Struct, gc=False):
    code: Int32
    header: SendMessageRequestHeader = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = "OTHER"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


_decode_json = msgspec.json.Decoder(SendCommandHeader, strict=False).decode
_decode_old_json = msgspec.json.Decoder(_OldSendCommandHeader, strict=False).decode


def json_start(code: RequestCode) -> bytes:
    """How the JSON header of a request begins when Java wrote it: Java sorts the names."""
    return b'{"code":%d,' % code


def binary_start(code: RequestCode) -> bytes:
    """How the binary header of a request begins. Language and version, which follow, differ between clients."""
    return _BINARY_CODE.pack(code)


_OLD_START: Final = json_start(RequestCode.SEND_MESSAGE)


def decode_send(frame: Frame) -> SendCommandHeader | None:
    """Decode the header of a send that expects an answer or is oneway. Return None for any other frame."""
    is_old = frame.header.startswith(_OLD_START)
    try:
        if frame.serialization:
            send = _decode_binary_send(frame)
        else:
            send = _decode_old_send(frame.header) if is_old else _decode_json(frame.header)
            if (send.code in _SHORT_NAME_CODES) is is_old:
                return None
    except (*DECODE_ERRORS, ProtocolError):
        return None
    return send if send.code in _CODES and send.flag in _FLAGS else None


def _decode_old_send(header: bytes) -> SendCommandHeader:
    old = _decode_old_json(header)
    return SendCommandHeader(old.code, old.header.to_v2(), old.flag, old.language, old.opaque, old.remark, old.version)


def _decode_binary_send(frame: Frame) -> SendCommandHeader:
    command = decode_command(frame)
    if command.code == RequestCode.SEND_MESSAGE:
        header = command.header(SendMessageRequestHeader).to_v2()
    else:
        header = command.header(SendMessageRequestHeaderV2)
    return SendCommandHeader(command.code, header, command.flag, opaque=command.opaque)
