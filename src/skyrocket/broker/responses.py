"""The two responses of the hot path, as bytes without an object in between. Everything else is a Command.

Only for JSON, and only where every value is known to need no escaping; `None` means: take the ordinary way.
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol import versions
from skyrocket.protocol.frame import PREFIX

_TAIL = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT
_SEND: Final = (
    b'{"code":0,"extFields":{"queueId":"%d","transactionId":"%b","msgId":"%b","TRACE_ON":"%b","MSG_REGION":"%b","queueOffset":"%d"},'
    b'"flag":1,"language":"PYTHON","opaque":%d'
)
_PULL: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","groupSysFlag":"0","nextBeginOffset":"%d","maxOffset":"%d",'
    b'"minOffset":"%d","topicSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"remark":"%b"'
)


def send_response(
    opaque: int, queue_id: int, queue_offset: int, message_id: bytes, unique_key: bytes, region: bytes, trace: bytes
) -> bytes:
    """SUCCESS for a send."""
    header = _SEND % (queue_id, unique_key, message_id, trace, region, queue_offset, opaque) + _TAIL
    return PREFIX.pack(len(header) + 4, len(header)) + header


def pull_response(
    opaque: int, code: int, offsets: tuple[int, int, int], suggested: int, topic_sys_flag: int, remark: bytes, body_bytes: int
) -> bytes:
    """The start of a pull's answer; `body_bytes` of records follow it. `offsets` are next, minimum and maximum."""
    following, least, most = offsets
    header = _PULL % (code, suggested, following, most, least, topic_sys_flag, opaque, remark) + _TAIL
    return PREFIX.pack(len(header) + 4 + body_bytes, len(header)) + header
