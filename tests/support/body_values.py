"""Values of any body type, made from the type alone: what a test asks of one body it can ask of all."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from skyrocket.protocol import bodies
from skyrocket.protocol.bodies import BatchAck, Body, MessageQueue, bits_of

TEXTS = [
    "",
    "a",
    "topic-1",
    "%RETRY%g",
    "null",
    "1",
    'quote " and \\',
    "line\nend\ttab\x00\x1f\x7f",
    "é中文\u2028",
    "😀 / ' <&>",
    "{a:[b]}",
]
DOUBLES = [0.0, 1.0, -2.5, 0.1, 0.3, 1e-5, 9.99e-4, 0.001, 1e7, 9999999.0, 12345678.9, 1e100, 0.033332222259258026, 1 / 3]


def body_types() -> list[type[Body]]:
    """Every body type that the package exports."""
    exported = [getattr(bodies, name) for name in bodies.__all__]
    return [each for each in exported if isinstance(each, type) and issubclass(each, Body) and each is not Body]


def any_body(body_type: type[Body], random: Random) -> Any:
    """A body with some of everything: fields left out, empty and full collections, the largest numbers, awkward text."""
    return _any(inspect.type_info(body_type), random)


def _any(kind: inspect.Type, random: Random) -> Any:
    if isinstance(kind, inspect.UnionType):
        rest = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
        return None if random.randrange(5) == 0 else _any(rest, random)
    if isinstance(kind, inspect.StructType):
        body = kind.cls(**{field.name: _any(field.type, random) for field in kind.fields})
        if isinstance(body, BatchAck):  # Java has a set of bits, which has no zero bytes at its end and is not empty
            body.bits = bits_of(random.randrange(64) for _ in range(random.randrange(1, 5)))
        return body
    if isinstance(kind, inspect.ListType):
        return [_any(kind.item_type, random) for _ in range(random.randrange(3))]
    if isinstance(kind, inspect.VarTupleType):
        return tuple(_any(kind.item_type, random) for _ in range(random.randrange(3)))
    if isinstance(kind, inspect.DictType):
        return {_any(kind.key_type, random): _any(kind.value_type, random) for _ in range(random.randrange(3))}
    if isinstance(kind, inspect.EnumType):
        return random.choice(list(kind.cls))
    if isinstance(kind, inspect.CustomType):
        assert kind.cls is MessageQueue
        return MessageQueue(random.choice(TEXTS), random.choice(TEXTS), _integer(-(2**31), 2**31 - 1, random))
    if isinstance(kind, inspect.IntType):
        return _integer(kind.ge or 0, kind.le or 0, random)
    if isinstance(kind, inspect.FloatType):
        return random.choice(DOUBLES)
    if isinstance(kind, inspect.BoolType):
        return random.randrange(2) == 1
    if isinstance(kind, inspect.BytesType):
        return bytes(random.randrange(256) for _ in range(random.randrange(9)))
    assert isinstance(kind, inspect.StrType), kind
    return random.choice(TEXTS)


def _integer(least: int, most: int, random: Random) -> int:
    assert least < most, "every integer of a body has its Java type's bounds"
    return random.choice([least, most, -1, 0, 1, 2**31 - 1, random.randint(least, most)])


def without_order(value: Any) -> Any:
    """`value` as plain data with every list sorted and without doubles: what a Java set keeps of it."""
    if isinstance(value, Body):
        return {field.name: without_order(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
    if isinstance(value, dict):
        return {key: without_order(value[key]) for key in sorted(value, key=repr)}
    if isinstance(value, list):
        return sorted({repr(without_order(item)): None for item in value})
    return value
