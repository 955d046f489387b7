"""Convert values that Java's JSON reader tolerates, and a strict reader does not, before a body is typed.

Peers rely on this: Apache's Go client sends a consume result as its number, and null for an empty list. The rules are measured
with Apache RocketMQ 5.5.0. Null for a number or a flag is zero or false; for any other field that cannot be None, it is the
default. A number in place of text becomes text, text in place of a number becomes the number, and empty text is zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from skyrocket.protocol.bodies.body import Body
from skyrocket.protocol.bodies.message_queues import MessageQueue, MessageQueueFields

Fit = Callable[[Any], Any]

_ZEROS: Final[dict[type[inspect.Type], Any]] = {inspect.IntType: 0, inspect.FloatType: 0.0, inspect.BoolType: False}


def as_java_reads(value: Any, body_type: Any) -> Any:
    """Convert `value` (plain dicts and lists) towards `body_type`. A value that fits no rule stays, and msgspec refuses it later.

    A key that must be a queue and is not raises ValueError, RecursionError or msgspec's DecodeError.
    """
    return _fit_of(body_type)(value)


def read_custom(custom_type: type[Any], value: Any) -> Any:
    """Decode a `MessageQueue`, the one type that msgspec leaves to a hook, from an object or from the text of an object key."""
    if custom_type is not MessageQueue:
        raise NotImplementedError(custom_type)
    if isinstance(value, MessageQueue):
        return value
    if isinstance(value, str):
        value = msgspec.json.decode(value)
    if isinstance(value, dict) and "$ref" in value:
        raise ValueError("a queue that is a key is a reference, whose path fastjson does not write correctly")
    try:
        queue = msgspec.convert(value, MessageQueueFields, strict=False)
    except msgspec.ValidationError:
        queue = msgspec.convert(as_java_reads(value, MessageQueueFields), MessageQueueFields, strict=False)
    return MessageQueue(queue.topic, queue.broker_name, queue.queue_id)


@lru_cache(maxsize=256)  # one per body type
def _fit_of(body_type: Any) -> Fit:
    return _fit(inspect.type_info(body_type))


def _fit(kind: inspect.Type) -> Fit:
    if isinstance(kind, inspect.UnionType):
        rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        assert len(rest) == 1, "a body's field is of one type, or of one type or None"
        fit_rest = _fit(rest[0])
        return lambda value: None if value is None else fit_rest(value)
    if isinstance(kind, inspect.StructType):
        return _fit_struct(kind)
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        fit_item = _fit(kind.item_type)
        return lambda value: [fit_item(item) for item in value if item is not None] if isinstance(value, list) else value
    if isinstance(kind, inspect.DictType):
        fit_value = _fit(kind.value_type)
        fit_key = _fit_key(kind.key_type)
        return lambda value: _fit_dict(value, fit_key, fit_value)
    if isinstance(kind, inspect.EnumType):
        members = list(kind.cls)
        return lambda value: _fit_member(value, members)
    return _SCALARS.get(type(kind), lambda value: value)


def _fit_struct(kind: inspect.StructType) -> Fit:
    fields: dict[str, tuple[Fit, bool, Any]] = {}
    for field in kind.fields:
        nullable = isinstance(field.type, inspect.UnionType)
        fields[field.encode_name] = (_fit(field.type), nullable, _ZEROS.get(type(field.type)))
    aliases = kind.cls.key_aliases if issubclass(kind.cls, Body) else {}

    def fit(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fitted = {}
        for key, item in value.items():
            name = aliases.get(key, key)
            if name not in fields:
                continue
            fit_field, nullable, zero = fields[name]
            if item is not None or nullable:
                fitted[name] = fit_field(item)
            elif zero is not None:
                fitted[name] = zero
        return fitted

    return fit


def _fit_key(kind: inspect.Type) -> Fit | None:
    """Return a converter for keys of a custom type, because msgspec.convert leaves such keys as text."""
    if not isinstance(kind, inspect.CustomType):
        return None
    return lambda key: read_custom(kind.cls, key)


def _fit_dict(value: Any, fit_key: Fit | None, fit_value: Fit) -> Any:
    if not isinstance(value, dict):
        return value
    return {fit_key(key) if fit_key else key: fit_value(item) for key, item in value.items() if item is not None}


def _fit_member(value: Any, members: list[Any]) -> Any:
    if isinstance(value, int) and 0 <= value < len(members):
        return members[value].value
    return value


def _fit_int(value: Any) -> Any:
    if value == "":
        return 0
    if isinstance(value, bool) or (isinstance(value, float) and abs(value) < 2.0**63):
        return int(value)
    return value


def _fit_float(value: Any) -> Any:
    return 0.0 if value == "" else value


def _fit_bool(value: Any) -> Any:
    if value == "":
        return False
    return value != 0 if isinstance(value, int) else value


def _fit_str(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return msgspec.json.encode(value).decode()
    return value


_SCALARS: Final[dict[type[inspect.Type], Fit]] = {
    inspect.IntType: _fit_int,
    inspect.FloatType: _fit_float,
    inspect.BoolType: _fit_bool,
    inspect.StrType: _fit_str,
}


# Integer keys without quotes -------------------------------------------------------------------------------------------

# Possessive quantifiers, and a string that does not end reaches to the end of the data: text is read once.
_KEY: Final = re.compile(rb"([{,][ \t\r\n]*+)(-?[0-9]++)(?=[ \t\r\n]*+:)")
_STRING_OR_KEY: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+|([{,][ \t\r\n]*+)(-?[0-9]++)(?=[ \t\r\n]*+:)', re.DOTALL)
_PLAIN_STRINGS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\{,]++|\\.)*+")*+', re.DOTALL)  # no string holds what begins a key


def quote_integer_keys(data: bytes) -> bytes:
    """Put integer keys in quotes: `{0:7,1:9}` becomes `{"0":7,"1":9}`, which every JSON library reads. Strings stay as they are.

    A file of offsets has millions of such keys. The dialect's parser, in Python, would take some twenty times as long.
    """
    if _PLAIN_STRINGS.fullmatch(data) is not None:
        return _KEY.sub(rb'\1"\2"', data)
    return _STRING_OR_KEY.sub(_quote, data)


def _quote(match: re.Match[bytes]) -> bytes:
    before, key = match.groups()
    return match[0] if key is None else b'%s"%s"' % (before, key)
