"""Encode and decode JSON bodies, in strict JSON and in the dialect of Apache's library, fastjson.

The dialect differs from JSON in two ways, which no JSON library reads:

    {0:"10.0.0.1:10911",1:"10.0.0.2:10911"}                        integer keys without quotes
    {{"brokerName":"b","queueId":0,"topic":"t"}:{"maxOffset":7}}   objects as keys

`decode` reads both forms. `encode` writes either, character for character as Apache RocketMQ 5.5.0 does: fields in alphabetical
order, without null and without white space.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, cast, get_args

import msgspec

from skyrocket.protocol import limits, versions
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.leniency import as_java_reads, quote_integer_keys, read_custom
from skyrocket.protocol.fastjson.reader import parse
from skyrocket.protocol.fastjson.writer import Dialect, encode, encode_pretty

__all__ = ["Dialect", "decode", "decode_file", "decode_request", "encode", "encode_pretty", "route_dialect"]

T = TypeVar("T")

_REFERENCE = b'"$ref"'

_FASTER = 16  # at least: quoting integer keys, compared to parsing in Python


def route_dialect(version: int, accept_standard_json_only: bool | None) -> Dialect:
    """Return the dialect of a nameserver's response to a route request: strict if the request's version or header asks for it.

    As in Apache, all other bodies are in fastjson's dialect, whatever the peer.
    """
    if version >= versions.STRICT_JSON_SINCE or accept_standard_json_only:
        return Dialect.STRICT
    return Dialect.FASTJSON


def decode_request(data: bytes, body_type: type[T]) -> T:
    """Like `decode`, for a request that a server handles in its event loop: a long body must be strict JSON."""
    return decode(data, body_type, limits.LENIENT_REQUEST_BYTES_MAX)


def decode(data: bytes, body_type: type[T], lenient_bytes_max: int = limits.LENIENT_JSON_BYTES_MAX) -> T:
    """Decode `data` to a `body_type` (a body struct, or a list of them). Raise BodyError if it does not fit.

    A body of more than `lenient_bytes_max` must be strict JSON. Integer keys are allowed in one of sixteen times that size.
    """
    if _REFERENCE not in data:
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Any", body_type))
        try:
            body = decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the dialect, input that Java tolerates, or invalid: the lenient decoder decides
        else:
            return body
        if len(data) <= _FASTER * lenient_bytes_max:
            with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return decoder.decode(quote_integer_keys(data))
    if len(data) > lenient_bytes_max:
        most = f"{lenient_bytes_max} are allowed in fastjson's dialect"
        raise BodyError(f"The body is not strict JSON, and its {len(data)} bytes are too many to be read otherwise: {most}.")
    return _decode_leniently(data, body_type)


def decode_file(data: bytes, body_type: type[T]) -> T:
    """Like `decode`, for a file of any size whose only departure from JSON is that integer keys have no quotes."""
    if _REFERENCE not in data:
        decoder: msgspec.json.Decoder[T] = _decoder(cast("Any", body_type))
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return decoder.decode(quote_integer_keys(data))
    return decode(data, body_type)


@lru_cache(maxsize=256)  # one per body type
def _decoder(body_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(body_type, strict=False, dec_hook=read_custom)


def _decode_leniently(data: bytes, body_type: type[T]) -> T:
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
