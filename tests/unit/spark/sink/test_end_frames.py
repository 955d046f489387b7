"""The request that ends a half message is the same as an encoded frame and as a command to be signed; what its answer says."""

from __future__ import annotations

import pytest

from skyrocket.client.producer.transactions import Outcome
from skyrocket.client.queues import Queue
from skyrocket.protocol.command import CommandDecoder
from skyrocket.protocol.headers import EndTransactionRequestHeader
from skyrocket.protocol.responses import ResponseCode
from skyrocket.spark.sink.half_messages import _DONE, _GONE, _NOT_DONE, _UNKNOWN, _EndFrame, end_state
from skyrocket.spark.sink.handles import HandleList
from skyrocket.spark.sink.row_ids import id_prefix, row_id

PREFIX = id_prefix("q", 0, 0)


@pytest.mark.parametrize("outcome", [Outcome.COMMIT, Outcome.ROLLBACK])
def test_frame_and_command_are_equal(outcome: Outcome):
    frames = _EndFrame("group", HandleList().handles(Queue("t", "a", 1), PREFIX), outcome)
    (from_bytes,) = CommandDecoder().feed(frames.frame(77, 70_000, 123_456_789_012, 42))
    command = frames.command(70_000, 123_456_789_012, 42)
    assert from_bytes.opaque == 77
    assert (from_bytes.code, dict(from_bytes.fields)) == (command.code, dict(command.fields))
    header = from_bytes.header(EndTransactionRequestHeader)
    assert (header.commit_log_offset, header.tran_state_table_offset) == (123_456_789_012, 42)
    assert (header.msg_id, header.topic, header.producer_group) == (row_id(PREFIX, 70_000), "t", "group")
    assert header.commit_or_rollback == outcome.value
    assert not header.from_transaction_check


@pytest.mark.parametrize(
    ("code", "remark", "state"),
    [
        (ResponseCode.SUCCESS, "", _DONE),
        (ResponseCode.SYSTEM_ERROR, "There is no half message at 17 in the log.", _GONE),
        (ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed", _GONE),
        (ResponseCode.SYSTEM_ERROR, "OS page cache busy, please try another machine", _UNKNOWN),
        (ResponseCode.SYSTEM_ERROR, "", _UNKNOWN),
        (ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while", _NOT_DONE),
        (ResponseCode.SYSTEM_BUSY, "There is no half message at 17 in the log.", _NOT_DONE),
        (ResponseCode.SERVICE_NOT_AVAILABLE, "Service not available now.", _NOT_DONE),
        (ResponseCode.NO_PERMISSION, "", _NOT_DONE),
    ],
)
def test_only_the_words_about_a_missing_half_message_count_as_gone(code: ResponseCode, remark: str, state: int):
    assert end_state(code, remark) == state
