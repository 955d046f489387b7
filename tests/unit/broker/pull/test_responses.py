"""Responses that are written straight to bytes are those that a command would be encoded to."""

from __future__ import annotations

import pytest

from skyrocket.broker.pull.responses import binary_pull_response, pull_response
from skyrocket.protocol.command import Command, decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter, Serialization
from skyrocket.protocol.headers import PullMessageResponseHeader
from skyrocket.protocol.responses import ResponseCode


@pytest.mark.parametrize("opaque", [0, 7, 2**31 - 1])
def test_binary_response_is_that_of_a_command(opaque: int):
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=12, min_offset=0, max_offset=10**17, topic_sys_flag=2, group_sys_flag=0
    )
    asked = Command(11, opaque=opaque, serialization=Serialization.ROCKETMQ)
    expected = encode_command(asked.response(ResponseCode.SUCCESS, header, body=b"records", remark="FOUND"))
    assert binary_pull_response(opaque, 0, (12, 0, 10**17), 0, 2, b"FOUND", 7) + b"records" == expected


def test_both_serializations_say_the_same():
    written = [encode(5, 19, (12, 3, 40), 0, 0, b"NO", 2) + b"ab" for encode in (pull_response, binary_pull_response)]
    json, binary = (decode_command(FrameSplitter().feed(one)[0]) for one in written)
    assert (json.code, json.opaque, json.flag, json.remark, json.body) == (
        binary.code,
        binary.opaque,
        binary.flag,
        binary.remark,
        binary.body,
    )
    assert json.fields == binary.fields
