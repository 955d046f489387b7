"""Access control: each request carries an access key, and a signature that proves knowledge of the secret key.

The signature is the HMAC-SHA1, in base64, over the values of the header's fields in the order of their names, followed by the
body. There is no separator between the values, and the names are not signed, because Apache's brokers check it so.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skyrocket.client.errors import ClientError
from skyrocket.client.queues import java_order

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105 - a field's name
SIGNATURE: Final = "Signature"


@dataclass(frozen=True)
class Credentials:
    """An access key and its secret key. The client signs every request with them."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)  # of temporary credentials

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ClientError("Credentials need a non-empty access_key and a non-empty secret_key.")


def sign_fields(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return `fields` with the access key, the security token and the signature added. A later change of a field or of the body
    makes the signature wrong."""
    signed = {**fields, ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        signed[SECURITY_TOKEN] = credentials.security_token
    signed[SIGNATURE] = signature(signed, body, credentials.secret_key)
    return signed


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Compute the signature of a request."""
    names = sorted(fields) if "".join(fields).isascii() else sorted(fields, key=java_order)
    mac = hmac.new(_bytes(secret_key), digestmod="sha1")
    mac.update(_bytes("".join([fields[name] for name in names if name != SIGNATURE])))
    mac.update(body)
    return b64encode(mac.digest()).decode("ascii")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
