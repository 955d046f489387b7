"""The signature of a request: proof that its sender knows the secret key that belongs to an access key.

    text      = values of all fields but Signature, in the order of their names, without separators, then the body
    Signature = base64(HMAC-SHA1(secret key, text))

Names, request code, number and flag are not signed, and there is neither a time nor a random number in it: whoever captures a
request can send it again. Only TLS protects against that. Apache's servers and clients compute it so.
"""

from __future__ import annotations

import hmac
from binascii import b2a_base64
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha1
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import _Hash

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a field's name
SIGNATURE: Final = "Signature"
CREDENTIAL_FIELDS: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})

CACHED_MAX: Final = 1024  # keys, and sets of names
_BLOCK_BYTES: Final = 64  # of SHA1
_UNSIGNED_BY_OLD_CLIENTS: Final = "_UNIQUE_KEY_QUERY"
_OLD_VERSION_MAX: Final = 399  # V4_9_3: up to it, clients add that field behind the signature


def java_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=CACHED_MAX)
def _order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that are signed, in order. Requests of one kind have the same names."""
    ordered = sorted(names) if "".join(names).isascii() else sorted(names, key=java_order)
    return tuple(name for name in ordered if name != SIGNATURE)


@lru_cache(maxsize=CACHED_MAX)
def _begun_hashes(secret_key: str) -> tuple[_Hash, _Hash]:
    """Return the two hashes of an HMAC, begun with the key: HMAC(key, text) = SHA1(key ^ 0x5C… | SHA1(key ^ 0x36… | text)).

    To begin them anew costs more than to hash a small request.
    """
    key = _bytes(secret_key)
    block = (sha1(key, usedforsecurity=False).digest() if len(key) > _BLOCK_BYTES else key).ljust(_BLOCK_BYTES, b"\0")
    inner, outer = (bytes(byte ^ mask for byte in block) for mask in (0x36, 0x5C))
    return sha1(inner, usedforsecurity=False), sha1(outer, usedforsecurity=False)


def _digest(fields: Mapping[str, str], body: bytes, secret_key: str) -> bytes:
    """Return the signature as it stands in the field, in base64."""
    begun, outer = _begun_hashes(secret_key)
    inner = begun.copy()
    inner.update(_bytes("".join([fields[name] for name in _order(tuple(fields))])))
    inner.update(body)
    outer = outer.copy()
    outer.update(inner.digest())
    return b2a_base64(outer.digest(), newline=False)


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Compute the signature of a request. A field `Signature` is left out."""
    return _digest(fields, body, secret_key).decode("ascii")


def is_signed_by(fields: Mapping[str, str], body: bytes, version: int, secret_key: str) -> bool:
    """Whether the request's signature is that of the secret key. The comparison takes the same time for every wrong one."""
    signed = fields
    if version <= _OLD_VERSION_MAX and _UNSIGNED_BY_OLD_CLIENTS in fields:
        signed = {name: value for name, value in fields.items() if name != _UNSIGNED_BY_OLD_CLIENTS}
    return hmac.compare_digest(_digest(signed, body, secret_key), _bytes(fields.get(SIGNATURE, "")))


def signed_fields(
    fields: Mapping[str, str], body: bytes, access_key: str, secret_key: str, security_token: str | None = None
) -> dict[str, str]:
    """Return `fields` with access key, security token and signature added."""
    signed = {**fields, ACCESS_KEY: access_key}
    if security_token is not None:
        signed[SECURITY_TOKEN] = security_token
    signed[SIGNATURE] = signature(signed, body, secret_key)
    return signed


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
