"""The body of every golden frame is of the kind that the code table says."""

from __future__ import annotations

from collections import Counter

import pytest

from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.message.batch import encode_batch
from skyrocket.protocol.payload import read_body
from skyrocket.protocol.requests import REQUESTS, Raw
from tests.support.golden import GoldenFrame, golden_frames

FRAMES = golden_frames()


def decoded(golden: GoldenFrame) -> Command:
    (command,) = CommandDecoder().feed(golden.frame)
    return command


WITH_BODIES = [golden for golden in FRAMES if decoded(golden).body]


@pytest.mark.parametrize("golden", WITH_BODIES, ids=[f"{i}-{golden.name}" for i, golden in enumerate(WITH_BODIES)])
def test_a_body_reads_as_its_kind(golden: GoldenFrame):
    command, row = decoded(golden), REQUESTS[golden.request_code]
    kind = row.response_body if command.is_response else row.body
    assert kind is not Raw.NONE, f"{row.name} has no body in the table, and a real one has"
    body = read_body(command, row)
    if not isinstance(kind, Raw):
        assert isinstance(body, kind)
    elif kind is Raw.BATCH:
        assert encode_batch(body) == command.body
    else:
        assert body


def test_every_captured_kind_of_body_is_tested():
    kinds = Counter(
        "JSON" if not isinstance(kind, Raw) else kind.value
        for golden in WITH_BODIES
        for row in [REQUESTS[golden.request_code]]
        for kind in [row.response_body if golden.kind == "response" else row.body]
    )
    assert kinds["JSON"] > 50
    assert kinds["records"] > 8
    assert min(kinds["message"], kinds["batch"], kinds["record"], kinds["properties text"]) > 1


def test_the_body_of_a_failed_response_is_ignored():
    pull = REQUESTS[11]
    assert read_body(Command(19, flag=1, body=b"anything"), pull) is None
