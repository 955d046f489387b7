"""Properties round-trip; properties that could not be restored are refused."""

from __future__ import annotations

import pytest

from skyrocket.protocol.errors import RecordError
from skyrocket.protocol.limits import PROPERTIES_BYTES_MAX
from skyrocket.protocol.message.properties import KEYS, TAGS, decode_properties, encode_properties


def test_names_and_values_with_their_separators():
    assert encode_properties({TAGS: "red", KEYS: "a b"}) == b"TAGS\x01red\x02KEYS\x01a b\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize("properties", [{}, {TAGS: "red"}, {"ключ": "値", "🚀": "𝒂"}, {"a b": "c=d\n\0"}])
def test_properties_come_back_from_bytes_and_from_text(properties: dict[str, str]):
    encoded = encode_properties(properties)
    assert decode_properties(encoded) == decode_properties(encoded.decode()) == properties


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a\x01b", {"a": "b"}),  # old clients leave out the last separator
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("\x02\x02a\x01b\x02", {"a": "b"}),
        ("ab\x02c\x01d", {"c": "d"}),
        ("a\x01\x02", {}),
        ("\x01b\x02", {}),
        ("\x01\x01\x01\x02", {}),
        ("a\x01\x01\x02", {"a": "\x01"}),
        ("abc\x02", {}),
        ("", {}),
    ],
)
def test_odd_text_is_read_as_java_reads_it(text: str, read: dict[str, str]):
    assert decode_properties(text) == read


def test_order_is_kept():
    assert list(decode_properties(encode_properties({"z": "1", "a": "2", "m": "3"}))) == ["z", "a", "m"]


@pytest.mark.parametrize("properties", [{"": "x"}, {"x": ""}, {"a\x01": "b"}, {"a\x02": "b"}, {"a": "\x01"}, {"a": "b\x02"}])
def test_properties_that_cannot_be_restored_are_refused(properties: dict[str, str]):
    with pytest.raises(RecordError, match="Property"):
        encode_properties(properties)


def test_text_that_is_not_unicode_is_refused():
    with pytest.raises(RecordError, match="not Unicode"):
        encode_properties({"a": "\ud800"})


def test_bytes_that_are_not_utf8_do_not_stop_a_reader():
    assert decode_properties(b"a\x01\xff\x02b\x01c\x02") == {"a": "\ufffd", "b": "c"}


def test_properties_larger_than_a_record_can_hold_are_refused():
    room = PROPERTIES_BYTES_MAX - len(b"a\x01\x02")
    assert len(encode_properties({"a": "v" * room})) == PROPERTIES_BYTES_MAX
    with pytest.raises(RecordError, match="32768 bytes"):
        encode_properties({"a": "v" * (room + 1)})
