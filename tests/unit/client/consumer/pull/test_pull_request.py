"""The pull's frame, written once and filled in, is what encoding its command would give."""

from __future__ import annotations

import pytest

from skyrocket.client.consumer.limits import ConsumerLimits
from skyrocket.client.consumer.pull.pull_policy import Outcome
from skyrocket.client.consumer.pull.pull_request import PullRequest, pull_answer
from skyrocket.client.consumer.subscription import Expression, sql, subscription
from skyrocket.client.errors import BrokerError
from skyrocket.client.queues import Queue
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.headers import PullMessageRequestHeader
from skyrocket.protocol.responses import ResponseCode
from skyrocket.protocol.sysflag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND

QUEUE = Queue("orders", "broker-a", 3)


def request(expression: Expression = "web || app") -> PullRequest:
    return PullRequest("coupons", QUEUE, subscription("orders", expression, 7), ConsumerLimits())


@pytest.mark.parametrize("commit", [None, 0, 41])
def test_frame_and_command_say_the_same(commit: int | None):
    (framed,) = CommandDecoder().feed(request().frame(5, 42, commit))
    command = request().command(42, commit)
    assert (framed.code, framed.opaque, framed.fields) == (command.code, 5, command.fields)


def test_it_says_where_and_what_and_how_long():
    header = request().command(42, 41).header(PullMessageRequestHeader)
    assert (header.topic, header.queue_id, header.queue_offset, header.commit_offset) == ("orders", 3, 42, 41)
    assert (header.max_msg_nums, header.max_msg_bytes, header.suspend_timeout_millis) == (32, 256 * 1024, 15_000)
    assert (header.subscription, header.expression_type) == ("web || app", "TAG")
    assert header.sys_flag == PULL_COMMIT_OFFSET | PULL_SUSPEND | PULL_SUBSCRIPTION


def test_an_sql92_expression_is_not_compiled_with_each_pull():
    header = request(sql("n > 1")).command(0, None).header(PullMessageRequestHeader)
    assert (header.subscription, header.expression_type, header.sys_flag) == (None, "SQL92", PULL_SUSPEND)


def answered(code: int, **fields: str) -> Command:
    return Command(code, fields={"nextBeginOffset": "9", "suggestWhichBrokerId": "1", **fields}, body=b"records", remark="why")


def test_answers():
    assert pull_answer(answered(ResponseCode.SUCCESS), "a") == (Outcome.FOUND, 9, 1, b"records")
    assert pull_answer(answered(ResponseCode.PULL_NOT_FOUND), "a") == (Outcome.NOTHING_NEW, 9, 1, b"")
    assert pull_answer(answered(ResponseCode.PULL_OFFSET_MOVED), "a").outcome is Outcome.OFFSET_ILLEGAL
    with pytest.raises(BrokerError, match="why"):
        pull_answer(answered(ResponseCode.NO_PERMISSION), "a")
    with pytest.raises(BrokerError, match="where to go on"):
        pull_answer(Command(ResponseCode.SUCCESS), "a")
