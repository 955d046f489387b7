"""Responses to a pull, encoded straight to bytes. A `Command` in between would cost more than the rest of the answer.

Values in JSON headers need no escaping: the caller has checked that.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

from skyrocket.broker.pull.frames import HeaderTemplate
from skyrocket.protocol import versions
from skyrocket.protocol.command import RESPONSE_FLAG
from skyrocket.protocol.frame import PREFIX, Serialization
from skyrocket.protocol.language import Language
from skyrocket.protocol.responses import ResponseCode

_FOUND: Final = b"FOUND"  # the remark of a pull that found messages, as Apache's broker words it

_BINARY_FIXED: Final = struct.Struct(">hbhiii")  # code, language, version, number, flag, remark's length

_BEFORE: Final = b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","groupSysFlag":"0","nextBeginOffset":"'
_BETWEEN: Final = b'","maxOffset":"%d","minOffset":"%d","topicSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":'
_BEHIND: Final = b',"remark":"%b","serializeTypeCurrentRPC":"JSON","version":%d}' % (b"%b", versions.CURRENT)
_HEADER: Final = _BEFORE + b"%d" + _BETWEEN + b"%d" + _BEHIND


def pull_response(
    opaque: int, code: int, offsets: tuple[int, int, int], suggested: int, topic_sys_flag: int, remark: bytes, body_bytes: int
) -> bytes:
    """Encode the length prefix and header of a pull's response; `body_bytes` of records follow it on the wire.

    `offsets` are the next, the minimum and the maximum offset; `suggested` is the id of the broker to pull from next.
    """
    following, least, most = offsets
    header = _HEADER % (code, suggested, following, most, least, topic_sys_flag, opaque, remark)
    return PREFIX.pack(len(header) + 4 + body_bytes, len(header)) + header


def binary_pull_response(
    opaque: int, code: int, offsets: tuple[int, int, int], suggested: int, topic_sys_flag: int, remark: bytes, body_bytes: int
) -> bytes:
    """Like `pull_response`, with a binary header."""
    following, least, most = offsets
    fields = b"".join(
        [
            _binary_field(b"suggestWhichBrokerId", suggested),
            _binary_field(b"nextBeginOffset", following),
            _binary_field(b"minOffset", least),
            _binary_field(b"maxOffset", most),
            _binary_field(b"topicSysFlag", topic_sys_flag),
            _binary_field(b"groupSysFlag", 0),
        ]
    )
    fixed = _BINARY_FIXED.pack(code, Language.PYTHON, versions.CURRENT, opaque, RESPONSE_FLAG, len(remark))
    header_bytes = len(fixed) + len(remark) + 4 + len(fields)
    prefix = PREFIX.pack(header_bytes + 4 + body_bytes, Serialization.ROCKETMQ << 24 | header_bytes)
    return b"".join((prefix, fixed, remark, len(fields).to_bytes(4), fields))


def _binary_field(name: bytes, value: int) -> bytes:
    text = b"%d" % value
    return b"%b%b%b%b" % (len(name).to_bytes(2), name, len(text).to_bytes(4), text)


@lru_cache(maxsize=256)  # consumers that read older messages see the same minimum and maximum again and again
def found_header(least: int, most: int, topic_sys_flag: int, suggested: int = 0) -> HeaderTemplate:
    """Build the header text that all responses for one queue share when they found messages.

    Only the next offset and the opaque number differ; they go between the three pieces. `suggested` is the id of the broker to
    pull from next.
    """
    before = _BEFORE % (ResponseCode.SUCCESS, suggested)
    return HeaderTemplate(before, _BETWEEN % (most, least, topic_sys_flag), _BEHIND % _FOUND)
