"""The end of a transaction (37) as nearly every producer sends it, oneway and in JSON, read in one step.

It reads what `command` and the typed header read one after the other. Whatever cannot be read like this is for them to judge.
"""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.protocol.command import ONEWAY_FLAG
from skyrocket.protocol.fast_path.send_header import NOT_ONE
from skyrocket.protocol.header import Int32
from skyrocket.protocol.headers import EndTransactionRequestHeader
from skyrocket.protocol.requests import RequestCode

END_START: Final = b'{"code":%d,' % RequestCode.END_TRANSACTION

# What counts of it: where the half message is in the log, its queue offset, how the transaction ended, the group of its producer,
# and whether that was asked.
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


def decode_oneway_end(header_bytes: bytes) -> TransactionEnd | None:
    """None for anything else."""
    try:
        end = _decode(header_bytes)
    except NOT_ONE:
        return None
    return end_of(end.header) if end.code == RequestCode.END_TRANSACTION and end.flag == ONEWAY_FLAG else None


def end_of(header: EndTransactionRequestHeader) -> TransactionEnd:
    return (
        header.commit_log_offset,
        header.tran_state_table_offset,
        header.commit_or_rollback,
        header.producer_group,
        header.from_transaction_check,
    )
