"""The pull request: its prepared frame equals the encoded command, and its response is decoded."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.pull.pull_policy import PullStatus
from skyrocket.client.consumer.pull.pull_request import PullRequest, decode_pull_response
from skyrocket.client.consumer.subscription import Expression, make_subscription, sql
from skyrocket.client.errors import BrokerError
from skyrocket.client.queues import Queue
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

QUEUE = Queue("orders", "broker-a", 3)


def request(expression: Expression = "web || app") -> PullRequest:
    return PullRequest("coupons", QUEUE, make_subscription("orders", expression, 7), ConsumerLimits())


@pytest.mark.parametrize("commit", [None, 0, 41])
def test_frame_equals_the_command(commit: int | None):
    (decoded,) = CommandDecoder().feed(request().encode_frame(5, 42, commit))
    command = request().command(42, commit)
    assert (decoded.code, decoded.opaque, decoded.fields) == (command.code, 5, command.fields)


def test_header_has_queue_offsets_limits_and_subscription():
    header = request().command(42, 41).header(PullMessageRequestHeader)
    assert (header.topic, header.queue_id, header.queue_offset, header.commit_offset) == ("orders", 3, 42, 41)
    assert (header.max_msg_nums, header.max_msg_bytes, header.suspend_timeout_millis) == (32, 256 * 1024, 15_000)
    assert (header.subscription, header.expression_type) == ("web || app", "TAG")
    assert header.sys_flag == PULL_COMMIT_OFFSET | PULL_SUSPEND | PULL_SUBSCRIPTION


def test_pull_does_not_carry_an_sql92_expression():
    header = request(sql("n > 1")).command(0, None).header(PullMessageRequestHeader)
    assert (header.subscription, header.expression_type, header.sys_flag) == (None, "SQL92", PULL_SUSPEND)


def response(code: int, **fields: str) -> Command:
    return Command(code, fields={"nextBeginOffset": "9", "suggestWhichBrokerId": "1", **fields}, body=b"records", remark="why")


def test_responses_are_decoded_and_refusals_raise():
    assert decode_pull_response(response(ResponseCode.SUCCESS, maxOffset="40"), "a") == (PullStatus.FOUND, 9, 1, b"records", 40)
    assert decode_pull_response(response(ResponseCode.PULL_NOT_FOUND), "a") == (PullStatus.NO_NEW_MESSAGES, 9, 1, b"", 0)
    assert decode_pull_response(response(ResponseCode.PULL_OFFSET_MOVED), "a").status is PullStatus.OFFSET_ILLEGAL
    with pytest.raises(BrokerError, match="why"):
        decode_pull_response(response(ResponseCode.NO_PERMISSION), "a")
    with pytest.raises(BrokerError, match="where to continue"):
        decode_pull_response(Command(ResponseCode.SUCCESS), "a")
