"""Successful responses to sends, decoded straight from their frames.

Send requests set `SEND_BIT` in their request number (opaque), so a response to one of them is recognised without looking up the
request. Every other response (a refusal, a late flush, a binary header) becomes a `Command` on the general path.
"""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.net.connection import Connection
from skyrocket.protocol.command import RESPONSE_FLAG
from skyrocket.protocol.frame import Frame

SEND_BIT: Final = 1 << 30  # of a request's opaque number; the numbers of `Connection.next_opaque` are smaller
START: Final = b'{"code":0,"extFields":{'


class StoredPosition(msgspec.Struct, gc=False):
    """Where the broker stored the message: the fields of a send response."""

    offset_id: str = msgspec.field(name="msgId")  # of a batch: all ids, separated by commas
    queue_id: int = msgspec.field(name="queueId")
    queue_offset: int = msgspec.field(name="queueOffset")
    transaction_id: str = msgspec.field(name="transactionId", default="")
    recall_handle: str = msgspec.field(name="recallHandle", default="")


class SendResponse(msgspec.Struct, gc=False):
    """The JSON header of a successful send response."""

    code: int
    flag: int
    opaque: int
    at: StoredPosition = msgspec.field(name="extFields")


_decode = msgspec.json.Decoder(SendResponse, strict=False).decode  # not strict: RocketMQ writes numbers as JSON strings


def take_send_responses(frames: list[Frame], connection: Connection) -> int:
    """Serve the successful send responses at the head of a read event, and return how many frames they were.

    This is a fast-path handler of the router. The first frame that is something else ends the run.
    """
    taken, resolve = 0, connection.resolve
    try:
        for frame in frames:
            response = _decode(frame[1])
            if response.code or not response.opaque & SEND_BIT or not response.flag & RESPONSE_FLAG:
                break
            resolve(response.opaque, response)
            taken += 1
    except (msgspec.DecodeError, UnicodeDecodeError):
        return taken  # another kind of response, or a malformed one: the general path decodes it and reports errors
    return taken
