"""The two responses of the hot path, as bytes without an object in between. Everything else is a Command.

Only JSON, and only where the values need no escaping: the caller has looked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skyrocket.broker.pull.frames import Words
from skyrocket.compiled import twin
from skyrocket.protocol import versions
from skyrocket.protocol.frame import PREFIX
from skyrocket.protocol.responses import ResponseCode

FOUND: Final = b"FOUND"  # the remark

_TAIL: Final = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT
_PULL_BEFORE: Final = b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","groupSysFlag":"0","nextBeginOffset":"'
_PULL_BETWEEN: Final = b'","maxOffset":"%d","minOffset":"%d","topicSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":'
_PULL_BEHIND: Final = b',"remark":"%b"' + _TAIL
_PULL: Final = _PULL_BEFORE + b"%d" + _PULL_BETWEEN + b"%d" + _PULL_BEHIND

SendRow = tuple[int, bytes, int, int, int]  # queue id, unique key, physical offset, queue offset, opaque
RecallableRow = tuple[int, bytes, int, bytes, int, int]  # with the recall handle behind the physical offset

_PLAIN_VALUES: Final = 5
_HANDLE: Final = b'"recallHandle":"%b",'


@lru_cache(maxsize=16)
def _send_template(region: str, trace_on: bool, message_id: bytes = b"%b", more: bytes = b"") -> bytes:
    """What stays the same as long as the settings do."""
    trace = "true" if trace_on else "false"
    added = f'"TRACE_ON":"{trace}","MSG_REGION":"{region}",'.encode().replace(b"%", b"%%")
    return (
        b'{"code":0,"extFields":{"queueId":"%d","transactionId":"%b","msgId":"'
        + message_id
        + b'",'
        + more
        + added
        + b'"queueOffset":"%d"},"flag":1,"language":"PYTHON","opaque":%d'
        + _TAIL
    )


def send_response(
    opaque: int,
    queue_id: int,
    queue_offset: int,
    ids: tuple[bytes, bytes],
    region: str,
    trace_on: bool,
    recall_handle: str | None = None,
) -> bytes:
    """SUCCESS for a send. `ids` are the message's offset id (several with commas for a batch) and its unique key."""
    message_id, unique_key = ids
    if recall_handle is None:
        header = _send_template(region, trace_on) % (queue_id, unique_key, message_id, queue_offset, opaque)
    else:
        values = (queue_id, unique_key, message_id, recall_handle.encode(), queue_offset, opaque)
        header = _send_template(region, trace_on, more=_HANDLE) % values
    return PREFIX.pack(len(header) + 4, len(header)) + header


def send_responses(rows: Sequence[SendRow | RecallableRow], id_prefix: str, region: str, trace_on: bool) -> bytes:
    """The same for many sends, one message each. `id_prefix` is what all offset ids of this broker begin with."""
    message_id = id_prefix.encode() + b"%016X"
    plain = _send_template(region, trace_on, message_id)
    recallable = _send_template(region, trace_on, message_id, _HANDLE)
    return framed(rows, plain, recallable, _PLAIN_VALUES)


def _framed(rows: Sequence[SendRow | RecallableRow], plain: bytes, longer: bytes, plain_values: int) -> bytes:
    """Frames whose headers are one of two templates, filled; which one, says how many values a row has."""
    headers = [(plain if len(row) == plain_values else longer) % row for row in rows]
    return b"".join([_prefix(len(header)) + header for header in headers])


framed = twin("send_loop", _framed)


@lru_cache(maxsize=256)  # they are of nearly the same length
def _prefix(header_bytes: int) -> bytes:
    return PREFIX.pack(header_bytes + 4, header_bytes)


def pull_response(
    opaque: int, code: int, offsets: tuple[int, int, int], suggested: int, topic_sys_flag: int, remark: bytes, body_bytes: int
) -> bytes:
    """The start of a pull's answer; `body_bytes` of records follow it. `offsets` are next, minimum and maximum."""
    following, least, most = offsets
    header = _PULL % (code, suggested, following, most, least, topic_sys_flag, opaque, remark)
    return PREFIX.pack(len(header) + 4 + body_bytes, len(header)) + header


@lru_cache(maxsize=256)  # those who read what was sent before have the same over and over
def found_words(least: int, most: int, topic_sys_flag: int) -> Words:
    """The same for several answers of one queue that all found something, here: the header around their two numbers."""
    before = _PULL_BEFORE % (ResponseCode.SUCCESS, 0)
    return Words(before, _PULL_BETWEEN % (most, least, topic_sys_flag), _PULL_BEHIND % FOUND)
