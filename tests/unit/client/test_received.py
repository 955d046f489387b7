from __future__ import annotations

import pytest

from skyrocket.client.queues import Queue
from skyrocket.client.received import Received, split_pulled_messages
from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.compression import compress
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record, encode_record
from skyrocket.protocol.sysflag import COMPRESSED, COMPRESSION_LZ4

HOST = pack_host("127.0.0.1", 10911)


def received(properties: dict[str, str] | None = None, **given) -> Received:
    values = {"topic": "orders", "body": b"body", "properties": encode_properties(properties or {}), "store_host": HOST}
    return Received(Record(**{**values, **given}), broker_name="broker-a")


def test_message_id_is_the_unique_key_or_else_the_offset_id():
    assert received({"UNIQ_KEY": "ABC"}, physical_offset=255).message_id == "ABC"
    assert received(physical_offset=255).message_id == "7F00000100002A9F00000000000000FF"
    assert received({"UNIQ_KEY": "ABC"}, physical_offset=255).offset_id == "7F00000100002A9F00000000000000FF"


def test_attributes_come_from_the_record_and_its_properties():
    message = received(
        {"TAGS": "web", "KEYS": "a b", "mine": "1", "__SHARDINGKEY": "s"}, queue_id=3, queue_offset=7, reconsume_times=2
    )
    assert (message.tag, message.keys, message.sharding_key, message.properties["mine"]) == ("web", ["a", "b"], "s", "1")
    assert (message.queue, message.queue_offset, message.reconsume_times) == (Queue("orders", "broker-a", 3), 7, 2)
    assert message.store_host == "127.0.0.1:10911"


def test_missing_properties_are_empty():
    message = received()
    assert (message.tag, message.keys, message.sharding_key) == ("", [], "")


def test_compressed_body_is_decompressed_on_access():
    packed = compress(b"x" * 10_000, COMPRESSION_LZ4)
    message = received(body=packed, sys_flag=COMPRESSED | COMPRESSION_LZ4)
    assert message.body == b"x" * 10_000
    assert message.record.body == packed


def pulled(*records: Record) -> list[Received]:
    data = b"".join(map(encode_record, records))
    return split_pulled_messages(data, "orders", broker_name="broker-a", topic="shown", arrived_ms=5)


def test_pulled_messages_have_the_records_of_the_response():
    properties = encode_properties({"TAGS": "web"})
    records = [
        Record("orders", b"one", properties, queue_id=3, queue_offset=7, store_host=HOST),
        Record("orders", compress(b"y" * 500, COMPRESSION_LZ4), sys_flag=COMPRESSED | COMPRESSION_LZ4, store_host=HOST),
        Record("other", b"of another topic", queue_offset=9, store_host=HOST),
        Record("orders", b"last", queue_offset=10, store_host=HOST, born_host=pack_host("::1", 5)),
    ]
    messages = pulled(*records)
    assert [message.body for message in messages] == [b"one", b"y" * 500, b"of another topic", b"last"]
    assert [message.queue_offset for message in messages] == [7, 0, 9, 10]
    assert [message.size_bytes for message in messages] == [len(record.body) for record in records]
    assert [message.record.topic for message in messages] == ["orders", "orders", "other", "orders"]
    assert [message.topic for message in messages] == ["shown"] * 4
    assert (messages[0].tag, messages[0].queue, messages[0].arrived_ms) == ("web", Queue("orders", "broker-a", 3), 5)
    assert (messages[3].born_host, messages[3].store_host) == ("[::1]:5", "127.0.0.1:10911")


def test_compressed_body_of_a_pulled_message_is_decompressed_once():
    packed = compress(b"y" * 500, COMPRESSION_LZ4)
    plain, compressed = pulled(
        Record("orders", b"one", store_host=HOST),
        Record("orders", packed, sys_flag=COMPRESSED | COMPRESSION_LZ4, store_host=HOST),
    )
    assert compressed.body is compressed.body
    assert (compressed.body, compressed.record.body) == (b"y" * 500, packed)
    assert plain.body is plain.body
    assert (plain.body, plain.record.body) == (b"one", b"one")


@pytest.mark.parametrize("place", [4, 8, 90, -1])
def test_response_with_a_damaged_record_is_refused(place: int):
    good = encode_record(Record("orders", b"a body of some bytes", store_host=HOST))
    damaged = bytearray(good)
    damaged[place] ^= 0xFF
    for data in (good + bytes(damaged), good + good[:-1]):
        with pytest.raises(RecordError):
            split_pulled_messages(data, "orders", broker_name="b", topic="orders", arrived_ms=0)


def test_no_message_is_in_an_empty_response():
    assert split_pulled_messages(b"", "orders", broker_name="b", topic="orders", arrived_ms=0) == []
