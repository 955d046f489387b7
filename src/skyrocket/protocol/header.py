"""Typed headers: the named fields of one command code as a checked Python object.

A header type is a struct whose attributes are ours (`queue_id`) and whose wire names are Apache's (`queueId`, or one letter in
the V2 send header). On the wire every value is text; `strict=False` turns it into the attribute's type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from skyrocket.protocol.errors import HeaderError

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Header(Struct, kw_only=True, rename="camel", gc=False):
    """The root of all typed headers."""

    def to_fields(self) -> dict[str, str]:
        """The named fields as they travel. None is not sent, as Java does not send null."""
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
    """Fields that 5.x adds to most requests, for its proxy and static topics."""

    namespace: str | None = msgspec.field(name="ns", default=None)
    namespaced: bool | None = msgspec.field(name="nsd", default=None)
    rpc_broker_name: str | None = msgspec.field(name="bname", default=None)
    rpc_oneway: bool | None = msgspec.field(name="oway", default=None)


class TopicHeader(RpcHeader, kw_only=True, rename="camel", gc=False):
    """The same, for requests about a topic: `lo` asks for the logical queue of a static topic."""

    logical: bool | None = msgspec.field(name="lo", default=None)


H = TypeVar("H", bound=Header)


@cache  # one entry per header type: bounded by the code table
def wire_names(header_type: type[Header]) -> tuple[tuple[str, str], ...]:
    """(attribute, wire name) of each field."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(header_type))


@cache
def _json_decoder(header_type: type[Header]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(header_type, strict=False)


def header_from_json(header_type: type[H], raw: msgspec.Raw) -> H | None:
    """The quick way, straight from a JSON header's extFields. None when it fails: the caller then takes the slow way."""
    try:
        header: H = _json_decoder(header_type).decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return header


def header_from_fields(header_type: type[H], fields: Mapping[str, str]) -> H:
    try:
        return msgspec.convert(fields, header_type, strict=False)
    except msgspec.ValidationError as error:
        raise _named(header_type, str(error), fields) from error


_MISSING = re.compile(r"missing required field `(\w+)`")
_WRONG = re.compile(r"^(.*) - at `\$\.(\w+)`$")


def _named(header_type: type[Header], sentence: str, fields: Mapping[str, str]) -> HeaderError:
    """msgspec's sentence, turned into ours."""
    if missing := _MISSING.search(sentence):
        return HeaderError(header_type.__name__, missing[1], "is required, and missing.")
    wrong = _WRONG.match(sentence)
    assert wrong is not None, sentence
    problem, name = wrong.groups()
    expected = problem.removeprefix("Expected ").split(", got")[0].replace("`", "")
    shown = fields.get(name, "")
    return HeaderError(header_type.__name__, name, f"must be {expected}, not {shown[:64]!r}.")
