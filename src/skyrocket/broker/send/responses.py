"""Responses to successful sends, encoded straight to bytes. A `Command` in between would cost more than the rest of the answer.

All functions write JSON headers, and only values that need no escaping in JSON: the caller has checked that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from skyrocket.compiled import twin
from skyrocket.protocol import versions
from skyrocket.protocol.frame import PREFIX

SendRow = tuple[int, bytes, int, int, int]  # queue id, unique key, physical offset, queue offset, opaque
RecallableRow = tuple[int, bytes, int, bytes, int, int]  # with the recall handle after the physical offset

_HEADER_END: Final = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % versions.CURRENT
_PLAIN_VALUES: Final = 5  # in a row without a recall handle
_HANDLE: Final = b'"recallHandle":"%b",'


@lru_cache(maxsize=16)
def _send_template(region: str, trace_on: bool, message_id: bytes = b"%b", more: bytes = b"") -> bytes:
    """Build the part of a response that stays the same until the settings change."""
    trace = "true" if trace_on else "false"
    added = f'"TRACE_ON":"{trace}","MSG_REGION":"{region}",'.encode().replace(b"%", b"%%")
    return (
        b'{"code":0,"extFields":{"queueId":"%d","transactionId":"%b","msgId":"'
        + message_id
        + b'",'
        + more
        + added
        + b'"queueOffset":"%d"},"flag":1,"language":"PYTHON","opaque":%d'
        + _HEADER_END
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
    """Encode the SUCCESS response to one send.

    `ids` are the message's offset id (for a batch, all of them with commas in between) and its unique key.
    """
    message_id, unique_key = ids
    if recall_handle is None:
        header = _send_template(region, trace_on) % (queue_id, unique_key, message_id, queue_offset, opaque)
    else:
        values = (queue_id, unique_key, message_id, recall_handle.encode(), queue_offset, opaque)
        header = _send_template(region, trace_on, more=_HANDLE) % values
    return PREFIX.pack(len(header) + 4, len(header)) + header


def send_responses(rows: Sequence[SendRow | RecallableRow], id_prefix: str, region: str, trace_on: bool) -> bytes:
    """Encode the SUCCESS responses to many sends of one message each.

    `id_prefix` is the store host in hexadecimal, with which every offset id of this broker begins.
    """
    message_id = id_prefix.encode() + b"%016X"
    plain = _send_template(region, trace_on, message_id)
    recallable = _send_template(region, trace_on, message_id, _HANDLE)
    return fill_frames(rows, plain, recallable, _PLAIN_VALUES)


def _fill_frames(rows: Sequence[SendRow | RecallableRow], plain: bytes, longer: bytes, plain_values: int) -> bytes:
    """Fill one of two header templates with each row and put the frame prefix before it.

    A row of `plain_values` values fills `plain`, any other row fills `longer`.
    """
    headers = [(plain if len(row) == plain_values else longer) % row for row in rows]
    return b"".join([_prefix(len(header)) + header for header in headers])


fill_frames = twin("send_loop", _fill_frames)


@lru_cache(maxsize=256)  # headers of sends have few different lengths
def _prefix(header_bytes: int) -> bytes:
    return PREFIX.pack(header_bytes + 4, header_bytes)
