"""Whatever a typed header holds arrives unchanged, through the JSON header and through the binary one."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyrocket.protocol import headers
from skyrocket.protocol.command import Command, CommandDecoder, encode_command
from skyrocket.protocol.frame import Serialization
from skyrocket.protocol.header import Header, Int32, Int64
from skyrocket.protocol.headers import BoundaryType

TYPES: list[type[Header]] = [
    value for name in headers.__all__ if isinstance(value := getattr(headers, name), type) and issubclass(value, Header)
]
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Int32, st.integers(-(2**31), 2**31 - 1)),
    (Int64, st.integers(-(2**63), 2**63 - 1)),
    (bool, st.booleans()),
    (BoundaryType, st.sampled_from(BoundaryType)),
]
TEXT = st.text(max_size=20) | st.sampled_from(["", "null", "true", "0", "\x01\x02", '"\\', "\x00", "𝄞"])


def values_of(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    parts = (field.type, *get_args(field.type))
    values = next((strategy for kind, strategy in VALUES if kind in parts), TEXT)
    return values | st.none() if type(None) in parts else values


def headers_of(header_type: type[Header]) -> st.SearchStrategy[Header]:
    return st.builds(header_type, **{field.name: values_of(field) for field in msgspec.structs.fields(header_type)})


@pytest.mark.parametrize("header_type", TYPES, ids=lambda t: t.__name__)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_header_arrives_as_it_was_sent(header_type: type[Header], data: st.DataObject):
    header = data.draw(headers_of(header_type))
    for serialization in Serialization:
        command = Command(10, fields=header.to_fields(), serialization=serialization)
        (arrived,) = CommandDecoder().feed(encode_command(command))
        assert arrived.header(header_type) == header
        assert arrived.fields == command.fields
