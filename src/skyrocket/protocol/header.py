"""Typed headers: the named fields of one command code as a checked Python object.

A header type is a struct with Python attribute names (`queue_id`) and Apache's wire names (`queueId`, or one letter in the V2
send header). On the wire every value is text; msgspec converts it to the attribute's type (`strict=False`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from skyrocket.protocol.errors import HeaderError

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Header(Struct, kw_only=True, rename="camel", gc=False):
    """The base class of all typed headers."""

    def to_fields(self) -> dict[str, str]:
        """Return the fields as text by wire name. A field that is None is left out, as Java leaves out null."""
        fields: dict[str, str] = {}
        for attribute, name in wire_names(type(self)):
            value = getattr(self, attribute)
            if value is None:
                continue
            if value.__class__ is bool:
                fields[name] = "true" if value else "false"
            else:
                fields[name] = str(value)
        return fields


class RpcHeader(Header, kw_only=True, rename="camel", gc=False):
    """The fields that 5.x adds to most requests, for its proxy and for static topics."""

    namespace: str | None = msgspec.field(name="ns", default=None)
    namespaced: bool | None = msgspec.field(name="nsd", default=None)
    rpc_broker_name: str | None = msgspec.field(name="bname", default=None)
    rpc_oneway: bool | None = msgspec.field(name="oway", default=None)


class TopicHeader(RpcHeader, kw_only=True, rename="camel", gc=False):
    """The fields that 5.x adds to requests about a topic. `lo` asks for the logical queue of a static topic."""

    logical: bool | None = msgspec.field(name="lo", default=None)


H = TypeVar("H", bound=Header)


@cache  # one entry per header type: bounded by the code table
def wire_names(header_type: type[Header]) -> tuple[tuple[str, str], ...]:
    """Return (attribute, wire name) of each field."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(header_type))


def header_from_fields(header_type: type[H], fields: Mapping[str, str]) -> H:
    """Return the fields as a `header_type`. Raise HeaderError if one is missing, or is not of the attribute's type."""
    try:
        return msgspec.convert(fields, header_type, strict=False)
    except msgspec.ValidationError as error:
        raise _header_error(header_type, str(error), fields) from error
    except UnicodeEncodeError as error:
        raise HeaderError(
            header_type.__name__, _find_lone_surrogate(fields), f"has text that is not Unicode: {error}."
        ) from error


_MISSING = re.compile(r"missing required field `(\w+)`")
_WRONG = re.compile(r"^(.*) - at `\$\.(\w+)`$")
_SHOWN_CHARACTERS_MAX = 64


def _header_error(header_type: type[Header], sentence: str, fields: Mapping[str, str]) -> HeaderError:
    """Convert msgspec's message to a HeaderError."""
    if missing := _MISSING.search(sentence):
        return HeaderError(header_type.__name__, missing[1], "is required, and missing.")
    wrong = _WRONG.match(sentence)
    assert wrong is not None, sentence
    problem, name = wrong.groups()
    shown = fields[name][:_SHOWN_CHARACTERS_MAX]
    return HeaderError(header_type.__name__, name, f"must be {_expected_type(problem)}, not {shown!r}.")


def _expected_type(problem: str) -> str:
    """Extract the expected type from msgspec's message: "Expected `int | null`, got `str`" becomes "int"."""
    if "out of range" in problem:
        return "int of at most 64 bits"  # msgspec checks this before the field's own bounds
    if problem.startswith("Invalid enum value"):
        return "a value known here"
    return problem.removeprefix("Expected ").split(", got")[0].replace("`", "").replace(" | null", "")


def _find_lone_surrogate(fields: Mapping[str, str]) -> str:
    """Return the field that has half of a surrogate pair. Only a caller's text can have one; bytes from the wire cannot."""
    return next(name for name, value in fields.items() if any("\ud800" <= character <= "\udfff" for character in name + value))
