from __future__ import annotations

from skyrocket.client.queues import Queue
from skyrocket.client.received import Received
from skyrocket.protocol.hosts import pack_host
from skyrocket.protocol.message.compression import compress
from skyrocket.protocol.message.properties import encode_properties
from skyrocket.protocol.message.record import Record
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
