"""Typed headers check their values, and errors name the field."""

from __future__ import annotations

from enum import StrEnum

import pytest
from msgspec import field

from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.errors import HeaderError
from skyrocket.protocol.frame import Serialization, join_frame
from skyrocket.protocol.header import Header, Int32, Int64, TopicHeader, header_from_fields, wire_names


class Speed(StrEnum):
    EXPRESS = "EXPRESS"


class Parcel(Header, kw_only=True):
    """A small typed header."""

    street_name: str
    floor: Int32 = field(name="f")
    weight_grams: Int64 | None = None
    is_fragile: bool = False
    note: str | None = None
    speed: Speed | None = None


class RoutedParcel(TopicHeader, kw_only=True):
    """One with the fields of 5.x."""

    street_name: str


def refused(fields: dict[str, str]) -> HeaderError:
    with pytest.raises(HeaderError) as caught:
        header_from_fields(Parcel, fields)
    return caught.value


def from_json(ext_fields: bytes) -> Command:
    frame = join_frame(Serialization.JSON, b'{"code":1,"extFields":' + ext_fields + b"}", b"")
    (command,) = CommandDecoder().feed(frame)
    return command


def test_names_on_the_wire_are_camel_case_unless_a_field_says_otherwise():
    assert dict(wire_names(Parcel)) == {
        "street_name": "streetName",
        "floor": "f",
        "weight_grams": "weightGrams",
        "is_fragile": "isFragile",
        "note": "note",
        "speed": "speed",
    }


def test_text_becomes_values():
    header = header_from_fields(
        Parcel, {"streetName": "Elm", "f": "-2", "weightGrams": "9223372036854775807", "isFragile": "true"}
    )
    assert header == Parcel(street_name="Elm", floor=-2, weight_grams=2**63 - 1, is_fragile=True)


def test_values_become_text_and_none_is_not_sent():
    assert Parcel(street_name="Elm", floor=3).to_fields() == {"streetName": "Elm", "f": "3", "isFragile": "false"}
    assert Parcel(street_name="", floor=0, is_fragile=True).to_fields() == {"streetName": "", "f": "0", "isFragile": "true"}


def test_fields_of_the_base_class_are_encoded():
    header = RoutedParcel(street_name="Elm", logical=True, rpc_broker_name="broker-a")
    assert header.to_fields() == {"streetName": "Elm", "lo": "true", "bname": "broker-a"}
    assert header_from_fields(RoutedParcel, header.to_fields()) == header


def test_unknown_fields_are_ignored():
    assert header_from_fields(Parcel, {"streetName": "Elm", "f": "1", "later": "5.9"}) == Parcel(street_name="Elm", floor=1)


def test_a_missing_field_is_named():
    error = refused({"streetName": "Elm"})
    assert (error.header, error.field) == ("Parcel", "f")
    assert str(error) == "Parcel: field 'f' is required, and missing."


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("f", "three", "int"),
        ("f", "", "int"),
        ("f", " 3", "int"),
        ("f", "3.5", "int"),
        ("f", "null", "int"),
        ("f", "2147483648", "int <= 2147483647"),
        ("f", "-2147483649", "int >= -2147483648"),
        ("weightGrams", "9223372036854775808", "int <= 9223372036854775807"),
        ("weightGrams", "-9223372036854775809", "int >= -9223372036854775808"),
        ("weightGrams", "9" * 5000, "int of at most 64 bits"),
        ("weightGrams", "1e400", "int of at most 64 bits"),
        ("isFragile", "perhaps", "bool"),
        ("speed", "slow", "a value known here"),
    ],
)
def test_a_wrong_value_is_named_and_shown(name: str, text: str, expected: str):
    error = refused({"streetName": "Elm", "f": "1", name: text})
    assert (error.header, error.field) == ("Parcel", name)
    assert error.problem == f"must be {expected}, not {text[:64]!r}."


def test_json_numbers_and_booleans_read_like_their_text():
    command = from_json(b'{"streetName":"Elm","f":3,"weightGrams":"7","isFragile":true,"note":null}')
    assert command.header(Parcel) == Parcel(street_name="Elm", floor=3, weight_grams=7, is_fragile=True)


def test_a_json_number_where_text_belongs_reads_as_text():
    assert from_json(b'{"streetName":42,"f":"3"}').header(Parcel) == Parcel(street_name="42", floor=3)


@pytest.mark.parametrize("ext_fields", [b"null", b"{}", b'{"streetName":null,"f":"1"}'])
def test_json_without_a_required_field_names_it(ext_fields: bytes):
    with pytest.raises(HeaderError, match="Parcel: field 'streetName' is required, and missing"):
        from_json(ext_fields).header(Parcel)


def test_json_with_a_wrong_value_names_the_field():
    with pytest.raises(HeaderError, match="Parcel: field 'f' must be int <= 2147483647, not '4294967296'"):
        from_json(b'{"streetName":"Elm","f":"4294967296"}').header(Parcel)


@pytest.mark.parametrize(("name", "text"), [("f", "\ud800"), ("\udfff", "1")])
def test_half_a_surrogate_pair_is_an_error_of_the_header(name: str, text: str):
    error = refused({"streetName": "Elm", "f": "1", name: text})
    assert error.field == name
    assert "not Unicode" in error.problem
