"""Answers to sends, read from their frames."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocket.client.errors import BrokerError
from skyrocket.client.producer.send_response import SEND_BIT, START, SendAnswer, take_answers
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import SendStatus, receipt_from
from skyrocket.protocol.command import RESPONSE_FLAG, Command, decode_command, encode_command
from skyrocket.protocol.frame import Frame, FrameSplitter, Serialization
from skyrocket.protocol.responses import ResponseCode

QUEUE = Queue("orders", "broker-a", 2)
FIELDS = {"msgId": "C0A8", "queueId": "2", "queueOffset": "41", "TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}


class Asked:
    """A connection, as far as answers go."""

    def __init__(self) -> None:
        self.heard: dict[int, Any] = {}

    def answered(self, opaque: int, answer: object) -> None:
        self.heard[opaque] = answer


def frame(opaque: int = SEND_BIT | 7, code: int = 0, flag: int = RESPONSE_FLAG, **about: Any) -> Frame:
    about = {"fields": FIELDS, **about}
    (found,) = FrameSplitter().feed(encode_command(Command(code, opaque=opaque, flag=flag, **about)))
    return found


def taken(*frames: Frame) -> tuple[int, dict[int, Any]]:
    asked = Asked()
    return take_answers(list(frames), asked), asked.heard  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{}, {"transactionId": "T", "recallHandle": "H"}, {"queueId": "3"}])
def test_an_ordinary_answer_gives_the_receipt_that_its_command_would(more: dict[str, str]):
    answer = frame(fields=FIELDS | more)
    assert answer.header.startswith(START)
    count, heard = taken(answer)
    assert (count, list(heard)) == (1, [SEND_BIT | 7])
    assert isinstance(heard[SEND_BIT | 7], SendAnswer)
    quick = receipt_from(heard[SEND_BIT | 7], "ID", QUEUE, "a:1")
    assert quick == receipt_from(decode_command(answer), "ID", QUEUE, "a:1")
    assert (quick.status, quick.queue_offset, quick.queue.queue_id) == (SendStatus.OK, 41, int(more.get("queueId", "2")))


@pytest.mark.parametrize(
    "other",
    [
        frame(opaque=7),
        frame(code=ResponseCode.SYSTEM_BUSY, remark="later"),
        frame(code=ResponseCode.FLUSH_DISK_TIMEOUT),
        frame(fields={"nextBeginOffset": "3", "suggestWhichBrokerId": "0"}),
        frame(fields=FIELDS | {"queueOffset": "soon"}),
        frame(fields={}),
        frame(flag=0),
        frame(serialization=Serialization.ROCKETMQ),
        Frame(0, b'{"code":0,"extFields":{"msgId":"\xff', b""),
    ],
    ids=["another's", "a refusal", "a late flush", "a pull's", "no number", "no fields", "a request", "binary", "broken"],
)
def test_what_is_not_ordinary_is_left_with_all_behind_it(other: Frame):
    count, heard = taken(frame(SEND_BIT | 1), frame(SEND_BIT | 2), other, frame(SEND_BIT | 3))
    assert (count, list(heard)) == (2, [SEND_BIT | 1, SEND_BIT | 2])


def test_a_command_that_says_no_is_an_error_and_one_that_says_less_than_it_must_too():
    for answer in (Command(ResponseCode.SYSTEM_BUSY, remark="later"), Command(0, fields={"msgId": "C0A8"})):
        with pytest.raises(BrokerError):
            receipt_from(answer, "ID", QUEUE, "a:1")
