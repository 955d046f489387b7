"""The ordinary answer to a send, read straight from its frame: the broker has it, and says where.

Senders mark their requests (`SEND_BIT`), so that an answer to one of them is known without asking who waits for it. Whatever is
not ordinary (a refusal, a flush that was late, a binary header) becomes a command as all answers do.
"""

from __future__ import annotations

from typing import Final

import msgspec

from skyrocket.net.connection import Connection
from skyrocket.protocol.command import RESPONSE_FLAG
from skyrocket.protocol.frame import Frame

SEND_BIT: Final = 1 << 30  # of a request's number; what `Connection.next_opaque` gives is smaller
START: Final = b'{"code":0,"extFields":{'


class StoredAt(msgspec.Struct, gc=False):
    offset_id: str = msgspec.field(name="msgId")  # of a batch: all, with commas between
    queue_id: int = msgspec.field(name="queueId")
    queue_offset: int = msgspec.field(name="queueOffset")
    transaction_id: str = msgspec.field(name="transactionId", default="")
    recall_handle: str = msgspec.field(name="recallHandle", default="")


class SendAnswer(msgspec.Struct, gc=False):
    code: int
    flag: int
    opaque: int
    at: StoredAt = msgspec.field(name="extFields")


_decode = msgspec.json.Decoder(SendAnswer, strict=False).decode  # not strict: numbers are written as texts


def take_answers(frames: list[Frame], connection: Connection) -> int:
    """An express handler: the ordinary answers to sends at the head of a read event."""
    taken, answered = 0, connection.answered
    try:
        for frame in frames:
            answer = _decode(frame[1])
            if answer.code or not answer.opaque & SEND_BIT or not answer.flag & RESPONSE_FLAG:
                break
            answered(answer.opaque, answer)
            taken += 1
    except (msgspec.DecodeError, UnicodeDecodeError):
        return taken  # it says something else, or nothing that can be read: the general way tells
    return taken
