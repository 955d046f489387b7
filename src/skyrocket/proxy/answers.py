"""One answer for the client, of the answers of several brokers to one request. Pure.

heartbeat, farewell       a success, if one broker has succeeded; first of all one that asks for the subscriptions again
the members of a group    all members that any broker knows: a member is known where its own topics are
"""

from __future__ import annotations

from typing import Final

from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.command import decode_command
from skyrocket.protocol.errors import ProtocolError
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.frame import Frame
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode

_SUBSCRIPTION_CHANGED: Final = "IS_SUB_CHANGE"  # a field of a heartbeat's response: the next one must name the subscriptions
_ASKS_AGAIN, _SUCCESS, _FAILURE = range(3)


def join_answers(code: int, frames: list[Frame]) -> Frame | None:
    """Return the answer to a request with this code; None when no broker has answered."""
    best = min(frames, key=_rank, default=None)
    if best is None or code != RequestCode.GET_CONSUMER_LIST_BY_GROUP or _rank(best) == _FAILURE:
        return best
    members: dict[str, None] = {}
    for frame in frames:
        if _rank(frame) != _FAILURE:
            members.update(dict.fromkeys(_members_in(frame)))
    return best._replace(body=encode(GetConsumerListByGroupResponseBody(consumer_id_list=list(members))))


def _rank(frame: Frame) -> int:
    command = decode_command(frame)
    if command.code != ResponseCode.SUCCESS:
        return _FAILURE
    return _ASKS_AGAIN if command.fields.get(_SUBSCRIPTION_CHANGED) == "true" else _SUCCESS


def _members_in(frame: Frame) -> list[str]:
    try:
        return decode(frame.body, GetConsumerListByGroupResponseBody).consumer_id_list or []
    except ProtocolError:
        return []  # the other brokers' answers count
