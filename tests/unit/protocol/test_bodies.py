"""Body types, and the two bodies that are not JSON: a packed registration and lines of settings."""

from __future__ import annotations

import struct
import zlib

import msgspec
import pytest

from skyrocket.protocol import bodies, limits
from skyrocket.protocol.bodies import (
    BatchAck,
    Body,
    ConsumeStatus,
    DataVersion,
    HeartbeatData,
    LockBatchResponseBody,
    MessageQueue,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicFilterType,
    TopicQueueMappingInfo,
    bits_of,
)
from skyrocket.protocol.broker_registration import RegistrationEncoder, decode_registration, encode_registration
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import decode, encode
from tests.support.body_values import body_types


def test_the_package_exports_every_body_once():
    assert len(body_types()) > 95
    assert len(set(bodies.__all__)) == len(bodies.__all__)


@pytest.mark.parametrize("body_type", [each for each in body_types() if each is not BatchAck], ids=lambda each: each.__name__)
def test_every_field_has_a_default_so_that_a_partial_body_reads(body_type: type[Body]):
    assert decode(b"{}", body_type) == body_type()
    assert decode(encode(body_type()), body_type) == body_type()


@pytest.mark.parametrize("body_type", body_types(), ids=lambda each: each.__name__)
def test_no_wire_name_is_taken_twice(body_type: type[Body]):
    names = [field.encode_name for field in msgspec.structs.fields(body_type)]
    assert len(set(names)) == len(names)


def test_odd_wire_names_are_apaches():
    assert b'"clientID":' in encode(HeartbeatData())
    assert b'"withoutSub":' in encode(HeartbeatData())
    assert encode(LockBatchResponseBody()) == b'{"lockOKMQSet":[]}'
    assert b'"consumeOKTPS":' in encode(ConsumeStatus())
    assert b'"pullRT":' in encode(ConsumeStatus())


# Values -------------------------------------------------------------------------------------------------------------


def test_a_queue_is_a_value():
    queue = MessageQueue("t", "b", 1)
    assert queue == MessageQueue("t", "b", 1)
    assert hash(queue) == hash(MessageQueue("t", "b", 1))
    assert queue != MessageQueue("t", "b", 2)
    assert queue != ("t", "b", 1)
    assert repr(queue) == "MessageQueue('t', 'b', 1)"


def test_queues_sort_as_in_java_by_topic_then_broker_then_number():
    first, second, third, last = (MessageQueue(*parts) for parts in (("a", "b", 2), ("a", "b", 10), ("a", "c", 0), ("b", "a", 0)))
    assert sorted([last, second, third, first]) == [first, second, third, last]


def test_the_next_version_of_a_table_counts_one_up():
    version = DataVersion(state_version=1, timestamp=5, counter=7)
    assert version.next(state_version=2, now_ms=99) == DataVersion(state_version=2, timestamp=99, counter=8)
    assert version.counter == 7


def test_the_bits_of_an_acknowledgement_are_offsets_from_its_start():
    ack = BatchAck(consumer_group="g", topic="t", start_offset=100, bits=bits_of([1, 9]))
    assert ack.bits == b"\x02\x02"
    assert ack.offsets() == [101, 109]
    assert BatchAck(consumer_group="g", topic="t").offsets() == []
    assert bits_of([]) == b""


# A registration -----------------------------------------------------------------------------------------------------


def registration(**given: object) -> RegisterBrokerBody:
    body = RegisterBrokerBody(filter_server_list=["10.0.0.1:30000"])
    wrapper = body.topic_config_serialize_wrapper
    wrapper.data_version = DataVersion(timestamp=5, counter=7)
    config = TopicConfig(**{"topic_name": "orders", "read_queue_nums": 8, "perm": 4, "attributes": {"+a": "b c"}, **given})  # type: ignore[arg-type]
    wrapper.topic_config_table = {config.topic_name: config}
    wrapper.topic_queue_mapping_info_map = {"orders": TopicQueueMappingInfo(topic="orders", bname="b", curr_id_map={0: 1})}
    return body


def packed(*pieces: bytes | int) -> bytes:
    parts = [struct.pack(">i", each) if isinstance(each, int) else struct.pack(">i", len(each)) + each for each in pieces]
    return zlib.compress(b"".join(parts))


def test_a_registration_comes_back_from_its_packed_form():
    body = registration()
    again = decode_registration(encode_registration(body, compressed=True), compressed=True)
    again.topic_config_serialize_wrapper.mapping_data_version = body.topic_config_serialize_wrapper.mapping_data_version
    assert again == body


def test_a_registration_comes_back_from_json():
    assert decode_registration(encode_registration(registration(), compressed=False), compressed=False) == registration()


def test_a_registration_after_another_has_every_change():
    encoder, mapping_version = RegistrationEncoder(), DataVersion(0, 0, 0)
    kept = TopicConfig(topic_name='kept"', perm=4)
    for counter, topics in enumerate(
        ({}, {'kept"': kept}, {'kept"': kept, "b": TopicConfig(topic_name="b")}, {'kept"': kept, "b": TopicConfig(perm=2)}, {})
    ):
        wrapper = TopicConfigAndMappingSerializeWrapper(
            topic_config_table=topics, data_version=DataVersion(counter=counter), mapping_data_version=mapping_version
        )
        whole = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), compressed=False)
        assert encoder.encode(topics, DataVersion(counter=counter), mapping_version) == whole


def test_a_packed_registration_lacks_fields_that_apaches_form_lacks():
    body = registration(order=True, topic_sys_flag=3)
    again = decode_registration(encode_registration(body, compressed=True), compressed=True)
    config = again.topic_config_serialize_wrapper.topic_config_table["orders"]
    assert (config.order, config.topic_sys_flag) == (False, 0)


def test_a_registration_of_4_9_has_no_attributes_and_no_mappings():
    text = packed(b'{"counter":7,"timestamp":5}', 2, b"a 8 4 6 SINGLE_TAG", b"b 1 1 2 MULTI_TAG", b"[]")
    wrapper = decode_registration(text, compressed=True).topic_config_serialize_wrapper
    assert wrapper.data_version == DataVersion(counter=7, timestamp=5)
    assert wrapper.topic_config_table == {
        "a": TopicConfig(topic_name="a", read_queue_nums=8, write_queue_nums=4, perm=6),
        "b": TopicConfig(
            topic_name="b", read_queue_nums=1, write_queue_nums=1, perm=2, topic_filter_type=TopicFilterType.MULTI_TAG
        ),
    }
    assert wrapper.topic_queue_mapping_info_map == {}


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"not zlib",
        packed()[:-1],
        packed(),
        packed(b"{}"),
        packed(b"{}", 1),
        packed(b"{}", -1),
        packed(b"{}", 2**31 - 1),
        packed(b"{}", 1, b"a 8 4", b"[]"),
        packed(b"{}", 1, b"a 8 4 6 NEITHER", b"[]"),
        packed(b"{}", 1, b"a 8 4 9999999999 SINGLE_TAG", b"[]"),
        packed(b"{}", 1, b"\xff 8 4 6 SINGLE_TAG", b"[]"),
        packed(b"{}", 1, b"a 8 4 6 SINGLE_TAG {", b"[]"),
        packed(b"{}", 0, b"{}"),
        packed(b"{}", 0, b"[]", 1),
        packed(b"{}", 0, b"[]", 1, b"[]"),
        packed(b"[]", 0, b"[]"),
    ],
)
def test_a_damaged_registration_is_refused(damaged: bytes):
    with pytest.raises(BodyError):
        decode_registration(damaged, compressed=True)


def test_a_registration_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "REGISTRATION_BYTES_MAX", 10_000)
    with pytest.raises(BodyError, match="more than 10000 bytes"):
        decode_registration(zlib.compress(bytes(10_001)), compressed=True)


def test_a_topic_with_a_space_in_its_name_cannot_be_packed():
    with pytest.raises(BodyError, match="cannot be packed"):
        encode_registration(registration(topic_name="a b"), compressed=True)


# Settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# comment\n ! comment\n\n \t\na=1", {"a": "1"}),
        ("  a  =  1 2  \nb:2\nc 3\nd", {"a": "1 2  ", "b": "2", "c": "3", "d": ""}),
        ("a=1=2:3", {"a": "1=2:3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=\\t\\n\\r\\f\\q\\u00e9\\u4E2D", {"a": "\t\n\r\fqé中"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=é中😀", {"a": "é中😀"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_settings_are_read_as_java_reads_them(text: str, settings: dict[str, str]):
    assert decode_config(text.encode()) == settings


def test_settings_are_written_one_a_line_and_escaped_only_where_they_must_be():
    settings = {"a": "1 = 2: 3 #", "path": "C:\\new", "lines": "x\nexec=1", "indented": "  x", "odd name": ""}
    text = encode_config(settings)
    assert text == b"a=1 = 2: 3 #\npath=C:\\\\new\nlines=x\\nexec=1\nindented=\\  x\nodd\\ name=\n"
    assert decode_config(text) == settings


@pytest.mark.parametrize("text", [b"a=\\u12", b"a=\\uXYZW", b"a=\xff", b"a=\\ud800", b"\\ud800=1"])
def test_settings_that_are_not_text_are_refused(text: bytes):
    with pytest.raises(BodyError):
        decode_config(text)


def test_settings_are_bounded():
    with pytest.raises(BodyError, match="are allowed"):
        decode_config(b"a" * (limits.CONFIG_TEXT_BYTES_MAX + 1))


def test_a_lone_surrogate_in_settings_is_refused():
    with pytest.raises(BodyError, match="surrogate"):
        encode_config({"a": "\ud800"})
