"""Send responses decoded straight from their frames."""

from __future__ import annotations

from typing import Any

import pytest

from skyrocket.client.errors import BrokerError
from skyrocket.client.queues import Queue
from skyrocket.client.receipt import SendStatus, build_receipt
from skyrocket.client.session.send_responses import SEND_BIT, START, SendResponse, take_send_responses
from skyrocket.protocol.command import RESPONSE_FLAG, Command, decode_command, encode_command
from skyrocket.protocol.frame import Frame, FrameSplitter, Serialization
from skyrocket.protocol.responses import ResponseCode

QUEUE = Queue("orders", "broker-a", 2)
FIELDS = {"msgId": "C0A8", "queueId": "2", "queueOffset": "41", "TRACE_ON": "true", "MSG_REGION": "DefaultRegion"}


class Responses:
    """The part of a connection that receives responses."""

    def __init__(self) -> None:
        self.received: dict[int, Any] = {}

    def resolve(self, opaque: int, response: object) -> None:
        self.received[opaque] = response


def frame(opaque: int = SEND_BIT | 7, code: int = 0, flag: int = RESPONSE_FLAG, **given: Any) -> Frame:
    given = {"fields": FIELDS, **given}
    (found,) = FrameSplitter().feed(encode_command(Command(code, opaque=opaque, flag=flag, **given)))
    return found


def take(*frames: Frame) -> tuple[int, dict[int, Any]]:
    responses = Responses()
    return take_send_responses(list(frames), responses), responses.received  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{}, {"transactionId": "T", "recallHandle": "H"}, {"queueId": "3"}])
def test_successful_response_gives_the_receipt_of_its_command(more: dict[str, str]):
    response = frame(fields=FIELDS | more)
    assert response.header.startswith(START)
    count, received = take(response)
    assert (count, list(received)) == (1, [SEND_BIT | 7])
    assert isinstance(received[SEND_BIT | 7], SendResponse)
    quick = build_receipt(received[SEND_BIT | 7], "ID", QUEUE, "a:1")
    assert quick == build_receipt(decode_command(response), "ID", QUEUE, "a:1")
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
    ids=[
        "not a send",
        "a refusal",
        "a late flush",
        "pull",
        "no number",
        "no fields",
        "a request",
        "binary",
        "broken",
    ],
)
def test_other_response_ends_the_run(other: Frame):
    count, received = take(frame(SEND_BIT | 1), frame(SEND_BIT | 2), other, frame(SEND_BIT | 3))
    assert (count, list(received)) == (2, [SEND_BIT | 1, SEND_BIT | 2])


def test_refusal_and_incomplete_response_raise_broker_error():
    for response in (Command(ResponseCode.SYSTEM_BUSY, remark="later"), Command(0, fields={"msgId": "C0A8"})):
        with pytest.raises(BrokerError):
            build_receipt(response, "ID", QUEUE, "a:1")
