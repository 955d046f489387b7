"""Decode the end of a transaction (37) that is sent oneway, as nearly every producer does. JSON is decoded in one step.

The result equals that of `command` followed by the typed header. Any other header goes to the general path, which reports errors.
"""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.protocol.command import ONEWAY_FLAG, decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fast_path.send_header import DECODE_ERRORS, binary_start, json_start
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.header import Int32
from skyrocket.protocol.headers import EndTransactionRequestHeader
from skyrocket.protocol.requests import RequestCode

END_STARTS: Final = (json_start(RequestCode.END_TRANSACTION), binary_start(RequestCode.END_TRANSACTION))  # by serialization

# Commit log offset of the half message, its queue offset, commit or rollback, producer group, whether this answers a check.
TransactionEnd = tuple[int, int, int, str, bool]


class _OnewayEnd(msgspec.Struct, gc=False):
    code: Int32
    header: EndTransactionRequestHeader = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = "OTHER"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


_decode = msgspec.json.Decoder(_OnewayEnd, strict=False).decode


def decode_oneway_end(frame: Frame) -> TransactionEnd | None:
    """Decode the header of a frame. Return None unless it is a oneway END_TRANSACTION."""
    try:
        end = _decode_binary(frame) if frame.serialization else _decode(frame.header)
    except (*DECODE_ERRORS, ProtocolError):
        return None
    return transaction_end(end.header) if end.code == RequestCode.END_TRANSACTION and end.flag == ONEWAY_FLAG else None


def _decode_binary(frame: Frame) -> _OnewayEnd:
    command = decode_command(frame)
    return _OnewayEnd(command.code, command.header(EndTransactionRequestHeader), command.flag)


def transaction_end(header: EndTransactionRequestHeader) -> TransactionEnd:
    """Return the fields of the header that end a transaction."""
    return (
        header.commit_log_offset,
        header.tran_state_table_offset,
        header.commit_or_rollback,
        header.producer_group,
        header.from_transaction_check,
    )
