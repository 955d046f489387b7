"""Every frame that Apache's software sent is decoded, and encoded again to the same bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.message.record import encode_record, iterate_records
from tests.support.golden import GoldenFrame, golden_frames

FRAMES = golden_frames()
EMPTY_FIELDS = b'"extFields":{},'
each_frame = pytest.mark.parametrize("golden", FRAMES, ids=[f"{i}-{frame.name}" for i, frame in enumerate(FRAMES)])


def decoded(golden: GoldenFrame) -> Command:
    (command,) = CommandDecoder().feed(golden.frame)
    return command


@each_frame
def test_a_frame_decodes_to_what_another_decoder_read(golden: GoldenFrame):
    command = decoded(golden)
    assert command.code == golden.header["code"]
    assert command.opaque == golden.header["opaque"]
    assert command.flag == golden.header["flag"]
    assert command.version == golden.header["version"]
    assert golden.header["language"] in (command.language.name, command.language.value)  # name in JSON, number in binary
    assert command.remark == golden.header.get("remark")
    assert command.fields == (golden.header.get("extFields") or {})
    assert command.serialization.name == golden.serialize
    assert command.is_response == (golden.kind == "response")
    assert command.is_oneway == (golden.kind == "oneway")


@each_frame
def test_a_frame_is_encoded_to_its_original_bytes(golden: GoldenFrame):
    command = decoded(golden)
    if EMPTY_FIELDS not in golden.frame:  # which says nothing, and is not written again
        assert encode_command(command) == golden.frame
    assert decoded(golden._replace(frame=encode_command(command))) == command


@each_frame
def test_a_frame_survives_the_other_serialization(golden: GoldenFrame):
    command = decoded(golden)
    if command.code > 32_767:
        return  # the POP family has no binary form
    command.remark = command.remark or None  # the binary header cannot tell an empty remark from none
    expected = decoded(golden)
    expected.remark = expected.remark or None
    original, other = command.serialization, Serialization(1 - command.serialization)
    command.serialization = other
    (there,) = CommandDecoder().feed(encode_command(command))
    assert there == command
    there.serialization = original
    (back,) = CommandDecoder().feed(encode_command(there))
    assert back == expected


def test_frames_of_one_stream_are_parsed_in_order():
    decoder = CommandDecoder()
    stream = b"".join(golden.frame for golden in FRAMES)
    commands = [command for at in range(0, len(stream), 1000) for command in decoder.feed(stream[at : at + 1000])]
    assert commands == [decoded(golden) for golden in FRAMES]
    assert decoder.pending_bytes == 0


def test_golden_file_has_every_kind_of_frame():
    kinds = Counter((golden.kind, golden.serialize) for golden in FRAMES)
    assert kinds[("request", "JSON")] > 50
    assert kinds[("request", "ROCKETMQ")] > 50
    assert kinds[("response", "JSON")] > 50
    assert kinds[("oneway", "ROCKETMQ")] > 5


RECORD_CODES = {11, 12, 33, 361}  # answers that carry records
WITH_RECORDS = [
    golden for golden in FRAMES if golden.request_code in RECORD_CODES and golden.kind == "response" and decoded(golden).body
]


@pytest.mark.parametrize("golden", WITH_RECORDS, ids=[golden.name for golden in WITH_RECORDS])
def test_records_in_answers_decode_and_encode_to_the_same_bytes(golden: GoldenFrame):
    body = decoded(golden).body
    records = list(iterate_records(body))
    assert records
    assert b"".join(map(encode_record, records)) == body


def test_golden_frames_contain_responses_with_records():
    assert len(WITH_RECORDS) >= 8
