from __future__ import annotations

import pytest

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.message import Message, properties_text
from skyrocket.client.producer.compression import Compression
from skyrocket.client.producer.request_frames import FrameTemplate, SendRequest, build_batch, properties_json
from skyrocket.client.producer.sequence import SequenceStamps
from skyrocket.client.queues import Queue
from skyrocket.protocol.command import CommandDecoder
from skyrocket.protocol.headers import SendMessageRequestHeaderV2
from skyrocket.protocol.message.batch import decode_batch
from skyrocket.protocol.message.compression import decompress
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.sysflag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_ZLIB, COMPRESSION_ZSTD

QUEUE = Queue("orders", "broker-a", 2)
SEND = RequestCode.SEND_MESSAGE_V2


@pytest.mark.parametrize("properties", ["", "a\x01b\x02", 'quotes"and\\slash\x01grün \U0001f680\x02'])
@pytest.mark.parametrize("oneway", [False, True])
def test_built_frame_decodes_to_its_command(properties: str, oneway: bool):
    template = FrameTemplate(SEND, "group", QUEUE, 4)
    frame = template.build_frame(77, properties, [b"body"], sys_flag=1, born_ms=1_700_000_000_000, flag=-3, oneway=oneway)
    (command,) = CommandDecoder().feed(frame)
    expected = template.build_command(properties, b"body", sys_flag=1, born_ms=1_700_000_000_000, flag=-3)
    expected.opaque = 77
    expected.flag = 2 if oneway else 0
    assert command == expected
    assert command.header(SendMessageRequestHeaderV2).broker_name == "broker-a"


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"body"),
        Message("orders", b"body", tag='grün "rot" \\', flag=-3, wait_until_stored=False),
        Message("orders", b"body", tag="100%", keys=["a%d", "b"], properties={"colour": "grün \U0001f680"}, delay_level=3),
    ],
)
def test_plain_frame_decodes_to_its_command(message: Message):
    queue = QUEUE._replace(topic="100%d", broker_name='broker-"%b"')
    template = FrameTemplate(SEND, "group%s", queue, 4)
    frame = template.build_plain_frame(77, "ID", properties_json(message), message.body, 1_700_000_000_000, message.flag)
    expected = template.build_command(
        properties_text(message, "ID"), message.body, sys_flag=0, born_ms=1_700_000_000_000, flag=message.flag
    )
    expected.opaque = 77
    assert CommandDecoder().feed(frame) == [expected]


def test_batch_has_each_message_with_its_id_and_properties():
    messages = [(Message("orders", b"one", tag="a", flag=1), "ID1"), (Message("orders", b"two"), "ID2")]
    request = build_batch("orders", messages, "BATCH")
    first, second = decode_batch(request.body)
    assert (first.body, first.flag, second.body) == (b"one", 1, b"two")
    assert decode_properties(first.properties) == {"UNIQ_KEY": "ID1", "WAIT": "true", "TAGS": "a"}
    assert decode_properties(second.properties)["UNIQ_KEY"] == "ID2"
    assert request.message_id == "ID1,ID2"


def stamp(properties: str) -> tuple[str | None, str | None]:
    found = decode_properties(properties)
    return found.get("SR_PID"), found.get("SR_SEQ")


def test_stamps_count_messages_per_queue():
    stamps = SequenceStamps("me")
    other = QUEUE._replace(queue_id=3)
    sent = [SendRequest("orders", SEND, f"ID{number}", "", b"b") for number in range(3)]
    found = [stamp(request.stamp_for(queue, stamps)) for request, queue in zip(sent, [QUEUE, other, QUEUE], strict=True)]
    assert found == [("me", "1"), ("me", "1"), ("me", "2")]


def test_second_attempt_at_the_same_queue_keeps_its_number():
    stamps, request = SequenceStamps("me"), SendRequest("orders", SEND, "ID", "", b"b")
    assert request.stamp_for(QUEUE, stamps) == request.stamp_for(QUEUE, stamps)
    assert stamp(request.stamp_for(QUEUE._replace(broker_name="b"), stamps)) == ("me", "1")


def test_each_message_of_a_batch_is_stamped():
    request = build_batch("orders", [(Message("orders", b"one"), "ID1"), (Message("orders", b"two"), "ID2")], "BATCH")
    stamps, other = SequenceStamps("me"), QUEUE._replace(queue_id=3)
    for queue, numbers in [(QUEUE, "12"), (QUEUE, "12"), (other, "12"), (QUEUE, "34")]:
        request.stamp_for(queue, stamps)
        found = [stamp(entry.properties.decode()) for entry in decode_batch(request.body)]
        assert found == [("me", number) for number in numbers]


def test_each_attempt_of_a_batch_has_the_same_body():
    request = build_batch("orders", [(Message("orders", b"one"), "ID1"), (Message("orders", b"two"), "ID2")], "BATCH")
    bodies = {b"".join(request.pieces()) for _ in range(3)}
    assert bodies == {request.body}
    assert request.size_bytes == len(request.body)


@pytest.mark.parametrize("size_bytes", [10, 200_000])
def test_frame_is_equal_whether_its_body_is_copied_or_follows_the_header(size_bytes: int):
    template, body = FrameTemplate(SEND, "group", QUEUE, 4), b"x" * size_bytes
    frame = template.build_frame(77, "", [body], sys_flag=0, born_ms=1, flag=0)
    in_pieces = template.build_frame(77, "", [body[:5], body[5:]], sys_flag=0, born_ms=1, flag=0)
    assert isinstance(frame, bytes) == (size_bytes == 10)
    assert b"".join([frame] if isinstance(frame, bytes) else frame) == in_pieces
    (command,) = CommandDecoder().feed(in_pieces)
    assert command.body == body


@pytest.mark.parametrize(("name", "kind"), [("zlib", COMPRESSION_ZLIB), ("lz4", COMPRESSION_LZ4), ("zstd", COMPRESSION_ZSTD)])
def test_bodies_of_4_kib_and_more_are_compressed_and_flagged(name: str, kind: int):
    compression = Compression(name)
    assert compression.pack(b"x" * 4095) == (b"x" * 4095, 0)
    packed, bits = compression.pack(b"x" * 4096)
    assert bits == COMPRESSED | kind
    assert decompress(packed, bits) == b"x" * 4096


def test_incompressible_body_is_sent_as_it_is():
    import random

    noise = random.Random(1).randbytes(5_000)
    assert Compression("zlib").pack(noise) == (noise, 0)
    assert Compression(None).pack(b"x" * 10_000) == (b"x" * 10_000, 0)


def test_unknown_compression_or_level_is_refused():
    with pytest.raises(ConfigurationError, match="zlib, lz4, zstd"):
        Compression("gzip")
    with pytest.raises(ConfigurationError, match="level"):
        Compression("zlib", level=10)
