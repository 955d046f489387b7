"""Properties are interpreted once for all messages that differ only in their unique key, and never mixed up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyrocket.broker.send.property_shapes import SHAPES_MAX, PropertyShapes
from skyrocket.protocol.message.properties import decode_properties
from skyrocket.protocol.message.unique_key import shape_of

KEY = b"7F000001A1B218B4AAC2000000000012"
OTHER = b"7F000001A1B218B4AAC2000000000013"
NAMES = [b"UNIQ_KEY", b"TAGS", b"KEYS", b"__transactionId__", b"MY_UNIQ_KEY", b"colour", KEY, b""]
VALUES = [KEY, OTHER, b"red", b"x" + KEY, b"\0", b"", b"k\x01v", b"\xff"]


def decode_by_shape(properties: bytes) -> dict[str, str]:
    """Decode properties by their shape, and put the key in place of the marks."""
    found, key = SHAPES.of(*shape_of(properties))
    return found if key is None else {name: value.replace("\0", key.decode()) for name, value in found.items()}


SHAPES: PropertyShapes[dict[str, str]] = PropertyShapes(dict)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=5), st.sampled_from([b"", b"\x02", b"TAGS"]))
def test_a_shape_means_what_the_properties_mean(pieces: list[tuple[bytes, bytes]], rest: bytes):
    properties = b"".join(name + b"\x01" + value + b"\x02" for name, value in pieces) + rest
    assert decode_by_shape(properties) == decode_properties(properties)


def test_properties_that_differ_only_in_the_key_are_interpreted_once():
    calls: list[dict[str, str]] = []

    def interpret(properties: dict[str, str]) -> str:
        calls.append(properties)
        return properties["TAGS"]

    shapes = PropertyShapes(interpret)
    for key in (KEY, OTHER):
        assert shapes.of(*shape_of(b"UNIQ_KEY\x01%b\x02TAGS\x01red\x02__transactionId__\x01%b\x02" % (key, key))) == ("red", key)
    assert len(calls) == 1


@pytest.mark.parametrize("name", [b"KEYS", b"TIMER_DELIVER_MS", b"colour"])
def test_the_cache_of_shapes_is_bounded(name: bytes):
    shapes = PropertyShapes(dict)
    for number in range(2 * SHAPES_MAX):
        shapes.of(*shape_of(b"UNIQ_KEY\x01%b\x02%b\x01%d\x02" % (KEY, name, number)))
    assert len(shapes.known) <= (SHAPES_MAX if name == b"colour" else 0)
