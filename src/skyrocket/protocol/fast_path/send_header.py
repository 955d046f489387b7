"""The header of an ordinary send, read in one step: 310 in JSON, which is what nearly every producer sends.

It reads what `command` and the typed header read one after the other, and as they do, in a third of the time. Whatever cannot be
read like this is for them to judge.
"""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.protocol.header import Int32
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.requests import RequestCode

START: Final = b'{"code":%d,' % RequestCode.SEND_MESSAGE_V2  # of the header: names are in alphabetical order in Java's


class OrdinarySend(msgspec.Struct, gc=False):
    """What is read of a header in JSON, its named fields typed. Other requests have the same fields: `code` tells them apart."""

    code: Int32
    header: SendMessageRequestHeaderV2 = msgspec.field(name="extFields")
    flag: Int32 = 0
    language: str = "OTHER"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


decode_ordinary_send = msgspec.json.Decoder(OrdinarySend, strict=False).decode
NOT_ONE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what it raises for anything else
