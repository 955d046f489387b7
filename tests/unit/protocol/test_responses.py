"""Response codes have Apache's numbers; the three that 4.9 used otherwise are told apart."""

from __future__ import annotations

from skyrocket.protocol.command import CommandDecoder
from skyrocket.protocol.responses import V4_NAMES, ResponseCode, response_name
from tests.support.golden import golden_frames


def test_no_two_names_share_a_code():
    assert len(ResponseCode.__members__) == len(ResponseCode)


def test_every_response_code_in_golden_frames_is_known():
    answers = [command for golden in golden_frames() for command in CommandDecoder().feed(golden.frame) if command.is_response]
    assert {ResponseCode(command.code) for command in answers} == {
        ResponseCode.SUCCESS,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.QUERY_NOT_FOUND,
        ResponseCode.CONSUMER_NOT_ONLINE,
    }


def test_three_codes_meant_other_things_in_4_9():
    assert {code: (ResponseCode(code).name, old) for code, old in V4_NAMES.items()} == {
        209: ("POLLING_FULL", "UPDATE_AND_CREATE_ACL_CONFIG_FAILED"),
        210: ("POLLING_TIMEOUT", "DELETE_ACL_CONFIG_FAILED"),
        211: ("BROKER_NOT_EXIST", "UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED"),
    }


def test_a_code_has_a_name_for_people():
    assert response_name(17) == "TOPIC_NOT_EXIST"
    assert response_name(-1006) == "RPC_TIME_OUT"
    assert response_name(4711) == "4711"
