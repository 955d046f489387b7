"""The signature of a request: proof that its sender knows the secret key that belongs to an access key.

    text      = values of all fields but Signature, in the order of their names, without separators, then the body
    Signature = base64(HMAC-SHA1(secret key, text))

Names, request code, number and flag are not signed, and there is neither a time nor a random number in it: whoever captures a
request can send it again. Only TLS protects against that. Apache's servers and clients compute it so.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a field's name
SIGNATURE: Final = "Signature"
CREDENTIAL_FIELDS: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})

_UNSIGNED_BY_OLD_CLIENTS: Final = "_UNIQUE_KEY_QUERY"
_OLD_VERSION_MAX: Final = 399  # V4_9_3: up to it, clients add that field behind the signature


def java_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Compute the signature of a request. A field `Signature` is left out."""
    names = sorted(fields) if "".join(fields).isascii() else sorted(fields, key=java_order)
    text = "".join([fields[name] for name in names if name != SIGNATURE])
    return b64encode(hmac.digest(_bytes(secret_key), _bytes(text) + body, "sha1")).decode("ascii")


def is_signed_by(fields: Mapping[str, str], body: bytes, version: int, secret_key: str) -> bool:
    """Whether the request's signature is that of the secret key. The comparison takes the same time for every wrong one."""
    signed = fields
    if version <= _OLD_VERSION_MAX and _UNSIGNED_BY_OLD_CLIENTS in fields:
        signed = {name: value for name, value in fields.items() if name != _UNSIGNED_BY_OLD_CLIENTS}
    return hmac.compare_digest(_bytes(signature(signed, body, secret_key)), _bytes(fields.get(SIGNATURE, "")))


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
