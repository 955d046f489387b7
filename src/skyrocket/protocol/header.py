"""Typed headers: the named fields of one command code as a checked Python object.

A header type is a struct whose attributes are ours (`queue_id`) and whose wire names are Apache's (`queueId`, or one letter in
the V2 send header). On the wire every value is text; `strict=False` turns it into the attribute's type.
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


def header_from_fields(header_type: type[H], fields: Mapping[str, str]) -> H:
    try:
        return msgspec.convert(fields, header_type, strict=False)
    except msgspec.ValidationError as error:
        raise _named(header_type, str(error), fields) from error
    except UnicodeEncodeError as error:
        raise HeaderError(header_type.__name__, _not_unicode(fields), f"has text that is not Unicode: {error}.") from error


_MISSING = re.compile(r"missing required field `(\w+)`")
_WRONG = re.compile(r"^(.*) - at `\$\.(\w+)`$")
_SHOWN_CHARACTERS_MAX = 64


def _named(header_type: type[Header], sentence: str, fields: Mapping[str, str]) -> HeaderError:
    """msgspec's sentence, turned into ours."""
    if missing := _MISSING.search(sentence):
        return HeaderError(header_type.__name__, missing[1], "is required, and missing.")
    wrong = _WRONG.match(sentence)
    assert wrong is not None, sentence
    problem, name = wrong.groups()
    shown = fields[name][:_SHOWN_CHARACTERS_MAX]
    return HeaderError(header_type.__name__, name, f"must be {_expected(problem)}, not {shown!r}.")


def _expected(problem: str) -> str:
    """Its "Expected `int | null`, got `str`" is "int" here: whoever sends a field does not care that it may be left out."""
    if "out of range" in problem:
        return "int of at most 64 bits"  # so large that it was not compared with the field's own bounds
    if problem.startswith("Invalid enum value"):
        return "a value known here"
    return problem.removeprefix("Expected ").split(", got")[0].replace("`", "").replace(" | null", "")


def _not_unicode(fields: Mapping[str, str]) -> str:
    """The field with half a surrogate pair in it. That cannot come from a wire, only from a caller's own text."""
    return next(name for name, value in fields.items() if any("\ud800" <= character <= "\udfff" for character in name + value))
