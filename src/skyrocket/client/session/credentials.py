"""Access control: each request carries an access key, and a signature that proves knowledge of the secret key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skyrocket.client.errors import ClientError
from skyrocket.protocol.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, signature, signed_fields

__all__ = ["ACCESS_KEY", "SECURITY_TOKEN", "SIGNATURE", "Credentials", "sign_fields", "signature"]


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
    return signed_fields(fields, body, credentials.access_key, credentials.secret_key, credentials.security_token)
