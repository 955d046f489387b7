"""JSON bodies, in strict JSON and in the dialect that Apache's library (fastjson) writes.

Most bodies are plain JSON. Two things are not, and no JSON library reads them:

    {0:"10.0.0.1:10911",1:"10.0.0.2:10911"}                        integer keys without quotes
    {{"brokerName":"b","queueId":0,"topic":"t"}:{"maxOffset":7}}   objects as keys

`decode` reads both forms whatever they come from. `encode` writes the one that is asked for, character for character as
Apache RocketMQ 5.5.0 does: fields in alphabetical order, null left out, no white space.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast, get_args

import msgspec

from skyrocket.protocol import limits, versions
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.leniency import as_java_reads, read_custom
from skyrocket.protocol.fastjson.reader import parse
from skyrocket.protocol.fastjson.writer import Dialect, encode, encode_pretty

__all__ = ["Dialect", "decode", "encode", "encode_pretty", "route_dialect"]

T = TypeVar("T")

_REFERENCE = b'"$ref"'


def route_dialect(version: int, accept_standard_json_only: bool | None) -> Dialect:
    """What a nameserver answers a request for a route in: its `version` or its header asks for strict JSON.

    Every other body is written in fastjson's dialect to every peer, as Apache does.
    """
    if version >= versions.STRICT_JSON_SINCE or accept_standard_json_only:
        return Dialect.STRICT
    return Dialect.FASTJSON


def decode(data: bytes, body_type: type[T]) -> T:
    """`data` as a `body_type` (a body's struct, or a list of them). BodyError when it is not one."""
    if _REFERENCE not in data:
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Any", body_type))
        try:
            body = decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the dialect, something that Java would let pass, or nonsense: the slow way tells
        else:
            return body
    return _decode_slowly(data, body_type)


@lru_cache(maxsize=256)  # one per body type
def _decoder(body_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type, strict=False, dec_hook=read_custom)


def _decode_slowly(data: bytes, body_type: type[T]) -> T:
    if len(data) > limits.LENIENT_JSON_BYTES_MAX:
        raise BodyError(f"The body is not strict JSON, and its {len(data)} bytes are too many to be read otherwise.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"The body is not UTF-8 at byte {error.start}.") from error
    plain = parse(text)
    try:
        return msgspec.convert(as_java_reads(plain, body_type), body_type, strict=False, str_keys=True, dec_hook=read_custom)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BodyError(f"The body is not a {_name(body_type)}: {str(error).replace('`', '')}.") from error


def _name(body_type: Any) -> str:
    items = get_args(body_type)
    return f"list of {_name(items[0])}" if items else str(body_type.__name__)
