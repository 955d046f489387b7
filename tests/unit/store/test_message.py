"""Index keys of a message, and the third field of its queue entry."""

from __future__ import annotations

from itertools import product

import pytest

from skyrocket.protocol.message.properties import decode_properties, encode_properties
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.message.tags import java_hash
from skyrocket.protocol.system_names import SCHEDULE_TOPIC
from skyrocket.store.index.index import hash_key, pack_keys
from skyrocket.store.index.index_file import KEY
from skyrocket.store.message import DispatchRequest, delay_level, dispatch_request_of, index_keys
from tests.support.stores.store_messages import index_hash


def test_a_message_is_found_by_its_unique_key_its_keys_and_its_tag():
    properties = decode_properties(encode_properties({"KEYS": "b a", "TAGS": "red", "UNIQ_KEY": "u"}))
    assert index_keys(properties) == ("u", "b", "a", "T#red")
    assert index_keys({}) == ()


@pytest.mark.parametrize(
    "key",
    [
        "",
        "k",
        "a" * 24,
        "a" * 28,
        "a" * 29,
        "7F000001000078BF57FC0123456789AB",
        "x" * 254,
        "x" * 255,
        "x" * 300,
        "grüße",
        "🚀" * 40,
        "T#tag",
    ],
)
def test_index_hash_equals_javas_string_hash(key: str):
    assert hash_key("orders", key) == index_hash("orders", key)


def test_packed_keys_hash_like_single_keys():
    unique = [f"7F000001000078BF57FC{number:012X}" for number in (0, 1, 255, 4096, 2**40)] + [
        "é" * 32,
        "7F000001000078BF57FC0000" + "é" * 8,
    ]
    dispatches = [
        DispatchRequest(topic, 0, 0, number, 100, 0, 9, (key, "k", tag), 0)
        for number, (topic, key, tag) in enumerate(product(("a", "b"), unique, ("T#red", "T#blue", "T#red")))
    ]
    expected = [(hash_key(d.topic, key), d.physical_offset, 9) for d in dispatches for key in d.keys]
    assert list(KEY.iter_unpack(pack_keys(dispatches, -1))) == expected
    assert list(KEY.iter_unpack(pack_keys(dispatches, 5))) == expected[18:]
    rolled_back = [dispatch._replace(sys_flag=0xC) for dispatch in dispatches]
    assert pack_keys(rolled_back, -1) == b""


def test_hash_of_integer_min_value_is_zero():
    assert java_hash("t#vjnOgNk") == -(2**31)
    assert hash_key("t", "vjnOgNk") == index_hash("t", "vjnOgNk") == 0


@pytest.mark.parametrize(("text", "level"), [("3", 3), ("0", 0), ("-1", 0), ("x", 0), ("9" * 5_000, 0), ("", 0)])
def test_invalid_delay_level_is_zero(text: str, level: int):
    assert delay_level(SCHEDULE_TOPIC, {"DELAY": text}) == level
    assert delay_level("orders", {"DELAY": "3"}) == 0


def test_queue_entry_of_a_delayed_message_has_its_delivery_time():
    record = Record(SCHEDULE_TOPIC, b"", encode_properties({"DELAY": "2", "TAGS": "x"}), store_timestamp=1_000)
    assert dispatch_request_of(record, 100, (1_000, 5_000)).tags_code == 6_000
    record.properties = encode_properties({"DELAY": "99", "TAGS": "x"})
    assert dispatch_request_of(record, 100, (1_000, 5_000)).tags_code == 6_000
