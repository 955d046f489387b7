"""Encode bodies as text, as Apache RocketMQ 5.5.0 does.

These rules are measured. Fields are in alphabetical order of their wire names. Null is left out as a field or as the value of a
map, and is `null` in a list. Doubles are as Java prints them; NaN and the infinities are `null`. Control characters are
escaped, all other text is plain UTF-8. The strict form, which Apache uses for routes only, also sorts maps and quotes integers
too large for JavaScript.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Container, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec

from skyrocket.protocol.bodies.body import Body
from skyrocket.protocol.bodies.message_queues import MessageQueue
from skyrocket.protocol.errors import BodyError


class Dialect(Enum):
    """The form of keys that are not text."""

    FASTJSON = "fastjson"
    """Integers without quotes, objects as objects. Apache's programs write and read this form."""
    STRICT = "strict"
    """Integers in quotes, maps sorted. Apache writes routes in this form for clients of other languages. An object key, which no
    route has, becomes a string with its JSON; this project reads that, Apache does not."""


_SAFE_INTEGER_MAX: Final = 2**53 - 1


def encode(value: Any, dialect: Dialect = Dialect.FASTJSON) -> bytes:
    """Encode `value` (a body, or a list of bodies) as Java does. Raise BodyError for text that is not valid Unicode."""
    try:
        return _write(value, dialect).encode()
    except UnicodeEncodeError as error:
        raise BodyError("The body has half of a surrogate pair, which is not a character.") from error


def encode_pretty(value: Any) -> bytes:
    """Encode `value` with tabs and line ends, as Apache writes its files (but without blanks in empty lists)."""
    try:
        return _write_pretty(value, "\n").encode()
    except UnicodeEncodeError as error:
        raise BodyError("The body has half of a surrogate pair, which is not a character.") from error


def encode_pretty_entry(key: Any, value: Any, depth: int) -> bytes:
    """Encode one entry of a map as `encode_pretty` does, `depth` tabs deep."""
    line = "\n" + "\t" * depth
    try:
        return f"{_pretty_key(key, line)}:{_write_pretty(value, line)}".encode()
    except UnicodeEncodeError as error:
        raise BodyError("The body has half of a surrogate pair, which is not a character.") from error


def encode_pretty_members(body: Body, leave_out: Container[str]) -> list[tuple[str, bytes, bytes | None]]:
    """Return (attribute, `"wireName":`, text) of each field of a body that is not null, as `encode_pretty` writes them.

    The text of the attributes in `leave_out` is None: the caller writes it.
    """
    return [
        (attribute, key.encode(), None if attribute in leave_out else _write_pretty(value, "\n\t").encode())
        for attribute, key in _fields(type(body))
        if (value := getattr(body, attribute)) is not None or attribute in leave_out
    ]


@cache  # one entry per body type
def _fields(body_type: type[Body]) -> tuple[tuple[str, str], ...]:
    """Return (attribute, `"wireName":`) of each field, in the order of writing."""
    fields = sorted(msgspec.structs.fields(body_type), key=lambda field: field.encode_name)
    return tuple((field.name, f'"{field.encode_name}":') for field in fields)


def _write(value: Any, dialect: Dialect) -> str:
    if isinstance(value, Body):
        return "{" + ",".join([key + _write(item, dialect) for key, item in _members(value)]) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_write(item, dialect) for item in value]) + "]"
    if isinstance(value, Mapping):
        entries = _sort_entries(value) if dialect is Dialect.STRICT else value.items()
        return "{" + ",".join([_key(k, dialect) + ":" + _write(v, dialect) for k, v in entries if v is not None]) + "}"
    if dialect is Dialect.STRICT and isinstance(value, int) and abs(value) > _SAFE_INTEGER_MAX:
        return f'"{value}"'
    return _scalar(value)


def _write_pretty(value: Any, line: str) -> str:
    """Return `value` as indented text. `line` is a line end and the indentation of the line that `value` begins on."""
    inner = line + "\t"
    if isinstance(value, (Body, MessageQueue)):
        members = [key + _write_pretty(item, inner) for key, item in _members(value)]
        return "{" + inner + ("," + inner).join(members) + line + "}"
    if isinstance(value, Mapping):
        entries = [_pretty_key(k, inner) + ":" + _write_pretty(v, inner) for k, v in value.items() if v is not None]
        return "{" + inner + ("," + inner).join(entries) + line + "}" if entries else "{}"
    if isinstance(value, tuple):
        return _write(value, Dialect.FASTJSON)
    if isinstance(value, list):
        items = [_write_pretty(item, inner) for item in value]
        return "[" + inner + ("," + inner).join(items) + line + "]" if items else "[]"
    return _scalar(value)


def _pretty_key(key: Any, line: str) -> str:
    return _write_pretty(key, line) if isinstance(key, MessageQueue) else _key(key, Dialect.FASTJSON)


def _members(body: Body | MessageQueue) -> list[tuple[str, Any]]:
    if isinstance(body, MessageQueue):
        return [('"brokerName":', body.broker_name), ('"queueId":', body.queue_id), ('"topic":', body.topic)]
    return [(key, value) for attribute, key in _fields(type(body)) if (value := getattr(body, attribute)) is not None]


def _key(key: Any, dialect: Dialect) -> str:
    if isinstance(key, str):
        return _text(key)
    written = _scalar(key)
    if dialect is Dialect.FASTJSON:
        return written
    return _text(written)


def _sort_entries(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Sort a map by key: text by UTF-16 units, as in Java, numbers by value, queues by topic, broker and queue id."""
    return sorted(mapping.items(), key=lambda entry: entry[0].encode("utf-16-be") if isinstance(entry[0], str) else entry[0])


# Single values ------------------------------------------------------------------------------------------------------


def _scalar(value: Any) -> str:
    writer = _SCALARS.get(value.__class__)
    if writer is not None:
        return writer(value)
    if isinstance(value, str):  # an enum member
        return _text(str(value))
    raise AssertionError(f"a body cannot hold a {type(value).__name__}")


_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')


def _text(value: str) -> str:
    if _ESCAPED.search(value) is None:
        return f'"{value}"'
    return msgspec.json.encode(value).decode()


def _queue(value: MessageQueue) -> str:
    return f'{{"brokerName":{_text(value.broker_name)},"queueId":{value.queue_id},"topic":{_text(value.topic)}}}'


def java_double(value: float) -> str:
    """Format a number as Java's Double.toString: plain from 0.001 to 10,000,000, otherwise in scientific notation."""
    if not math.isfinite(value):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    power = int(exponent or 0) + len(whole) - 1 - leading_zeros
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"


_SCALARS: Final[dict[type[Any], Callable[[Any], str]]] = {
    str: _text,
    int: str,
    bool: lambda value: "true" if value else "false",
    float: java_double,
    bytes: lambda value: f'"{base64.b64encode(value).decode()}"',
    type(None): lambda _: "null",
    MessageQueue: _queue,
}
