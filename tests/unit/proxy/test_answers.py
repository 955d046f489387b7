"""One answer of several brokers' answers."""

from __future__ import annotations

from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.command import RESPONSE_FLAG, Command, CommandDecoder, decode_command, encode_command
from skyrocket.protocol.fastjson.codec import decode, encode
from skyrocket.protocol.frame import Frame, FrameSplitter, Serialization
from skyrocket.protocol.requests import RequestCode
from skyrocket.proxy.answers import join_answers
from skyrocket.proxy.server_link import pieces_of

HEART_BEAT, MEMBERS = RequestCode.HEART_BEAT, RequestCode.GET_CONSUMER_LIST_BY_GROUP


def answer(code: int = 0, body: bytes = b"", serialization: Serialization = Serialization.JSON, **fields: str) -> Frame:
    command = Command(code, opaque=7, flag=RESPONSE_FLAG, fields=fields, body=body, serialization=serialization)
    (frame,) = FrameSplitter().feed(encode_command(command))
    return frame


def members(*ids: str) -> bytes:
    return encode(GetConsumerListByGroupResponseBody(consumer_id_list=list(ids)))


def test_one_success_is_a_success_and_a_request_for_the_subscriptions_comes_first():
    failed, fine, asks = answer(1), answer(), answer(IS_SUB_CHANGE="true")
    assert join_answers(HEART_BEAT, []) is None
    assert join_answers(HEART_BEAT, [failed]) is failed
    assert join_answers(HEART_BEAT, [failed, fine]) is fine
    assert join_answers(HEART_BEAT, [fine, asks, failed]) is asks


def test_the_members_of_a_group_are_those_that_any_broker_knows():
    """A member that uses broker b alone is unknown to broker a."""
    for serialization in Serialization:
        one, two = answer(body=members("x", "y"), serialization=serialization), answer(body=members("y", "z"))
        joined = join_answers(MEMBERS, [answer(1), one, two, answer(body=b"broken")])
        assert joined is not None
        (command,) = CommandDecoder().feed(b"".join(pieces_of(joined)))
        assert (command.code, command.opaque, command.serialization) == (0, 7, serialization)
        assert decode(command.body, GetConsumerListByGroupResponseBody).consumer_id_list == ["x", "y", "z"]


def test_no_broker_knows_the_group():
    refused = join_answers(MEMBERS, [answer(1), answer(1)])
    assert refused is not None
    assert decode_command(refused).code == 1
