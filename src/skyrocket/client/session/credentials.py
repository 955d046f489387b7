"""Proof of who asks: each request carries the access key, and a signature that only its secret can make.

The signature is the HMAC-SHA1, in base64, over the values of the header's fields one after another in the order of their names,
and then the body. Nothing stands between the values, and names are not signed: that is how Apache's brokers check it.
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
    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)  # of a temporary login

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ClientError("Credentials need an access key and a secret key; one of them is empty.")


def signed_fields(fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """`fields` with the three of access control. Whatever is added or changed later breaks the signature."""
    signed = {**fields, ACCESS_KEY: credentials.access_key}
    if credentials.security_token is not None:
        signed[SECURITY_TOKEN] = credentials.security_token
    signed[SIGNATURE] = signature(signed, body, credentials.secret_key)
    return signed


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    names = sorted(fields) if "".join(fields).isascii() else sorted(fields, key=java_order)
    mac = hmac.new(_bytes(secret_key), digestmod="sha1")
    mac.update(_bytes("".join([fields[name] for name in names if name != SIGNATURE])))
    mac.update(body)
    return b64encode(mac.digest()).decode("ascii")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
