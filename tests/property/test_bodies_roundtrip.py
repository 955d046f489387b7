"""Whatever a body holds, it comes back, in both dialects; whatever comes instead, only BodyError does."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.protocol import bodies as b
from skyrocket.protocol.broker_registration import decode_registration, encode_registration
from skyrocket.protocol.config_text import decode_config, encode_config
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import Dialect, decode, encode, encode_pretty
from skyrocket.protocol.fastjson.writer import java_double
from tests.support.body_values import any_body, body_types

few = settings(max_examples=15, deadline=None)
some = settings(max_examples=100, deadline=None)
randoms = st.randoms(use_true_random=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("body_type", body_types(), ids=lambda each: each.__name__)
def test_every_body_in_both_dialects(body_type: type[b.Body]):
    @few
    @given(randoms)
    def comes_back(random: Random) -> None:
        body = any_body(body_type, random)
        for dialect in Dialect:
            assert decode(encode(body, dialect), body_type) == body
        assert decode(encode_pretty(body), body_type) == body
        msgspec.json.decode(encode(body, Dialect.STRICT))

    comes_back()


@pytest.mark.parametrize("body_type", body_types(), ids=lambda each: each.__name__)
def test_the_wrong_things_in_every_field(body_type: type[b.Body]):
    names = [field.encode_name for field in msgspec.structs.fields(body_type)]

    @few
    @given(st.dictionaries(st.sampled_from([*names, "$ref", "other"]), json_like))
    def is_read_or_refused(wrong: dict[str, Any]) -> None:
        with suppress(BodyError):
            decode(msgspec.json.encode(wrong), body_type)

    is_read_or_refused()


@some
@given(randoms, st.sampled_from([b.ConsumeStats, b.HeartbeatData, b.RegisterBrokerBody, b.ConsumerRunningInfo]), st.data())
def test_a_body_with_bytes_changed(random: Random, body_type: type[b.Body], data: st.DataObject):
    damaged = bytearray(encode(any_body(body_type, random)))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(BodyError):
        decode(bytes(damaged), body_type)


@some
@given(st.text(alphabet='{}[]:,"\\0123.eE-nulltrue $rf@ud8', max_size=60))
def test_text_that_is_nearly_json(nonsense: str):
    for body_type in (b.KVTable, b.ResetOffsetBody):
        with suppress(BodyError):
            decode(nonsense.encode(), body_type)


@some
@given(st.dictionaries(text, text, max_size=5))
def test_a_table_of_any_text(table: dict[str, str]):
    body = b.KVTable(table=table)
    for dialect in Dialect:
        assert decode(encode(body, dialect), b.KVTable) == body


@some
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_as_java_prints_it(number: float):
    assert float(java_double(number)) == number


@some
@given(st.dictionaries(text, text, max_size=5))
def test_settings_of_any_text(written: dict[str, str]):
    assert decode_config(encode_config(written)) == written


@some
@given(st.text(alphabet=' \t\f\r\n\\=:#!abu0041"', max_size=60))
def test_settings_that_are_nonsense(nonsense: str):
    with suppress(BodyError):
        again = decode_config(nonsense.encode())
        assert decode_config(encode_config(again)) == again


@some
@given(st.binary(max_size=200), st.booleans())
def test_a_registration_that_is_nonsense(nonsense: bytes, compressed: bool):
    with suppress(BodyError):
        decode_registration(nonsense, compressed=compressed)


@some
@given(randoms, st.data())
def test_a_packed_registration_with_bytes_changed(random: Random, data: st.DataObject):
    body = any_body(b.RegisterBrokerBody, random)
    body.topic_config_serialize_wrapper.topic_config_table = {"t": b.TopicConfig(topic_name="t")}
    damaged = bytearray(encode_registration(body, compressed=True))
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(BodyError):
        decode_registration(bytes(damaged), compressed=True)
