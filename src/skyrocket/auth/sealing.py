"""Seals passwords: encrypted and authenticated, with what Python's standard library has.

    sealed  = base64( nonce, 16 bytes | encrypted | tag, 32 bytes )

    stream    = HMAC-SHA256(stream key, nonce | 0), HMAC-SHA256(stream key, nonce | 1), …      a block number has 4 bytes
    encrypted = plain XOR stream
    tag       = HMAC-SHA256(tag key, nonce | encrypted)

Both keys are derived from one. HMAC as a generator of a stream, and a tag over what is encrypted, is a standard construction:
without the key nobody can read a password, or change one unnoticed. The nonce must be new for every password.
"""

from __future__ import annotations

import binascii
import hmac
import struct
from base64 import b64decode, b64encode
from typing import Final

from skyrocket.auth.errors import SealError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16
_TAG_BYTES: Final = 32
_BLOCK: Final = struct.Struct(">I")
_BLOCK_BYTES: Final = 32


def seal(key: bytes, nonce: bytes, plain: str) -> str:
    assert len(nonce) == NONCE_BYTES, f"a nonce has {NONCE_BYTES} bytes"
    encrypted = _crypt(key, nonce, plain.encode("utf-8", "surrogatepass"))
    return b64encode(nonce + encrypted + _tag(key, nonce + encrypted)).decode("ascii")


def unseal(key: bytes, sealed: str) -> str:
    """Return the plain text. Raise SealError when it was sealed with another key, or was changed."""
    try:
        data = b64decode(sealed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SealError("A password is not sealed text.") from error
    signed, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if len(signed) < NONCE_BYTES or not hmac.compare_digest(_tag(key, signed), tag):
        raise SealError("A password was sealed with another key, or was changed.")
    return _crypt(key, signed[:NONCE_BYTES], signed[NONCE_BYTES:]).decode("utf-8", "surrogatepass")


def transfer_key(password: str) -> bytes:
    """Return the key of passwords that a master sends to a slave, from the password of the user who asks."""
    return hmac.digest(password.encode("utf-8", "surrogatepass"), b"skyrocket: users to a slave", "sha256")


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, purpose, "sha256")


def _tag(key: bytes, data: bytes) -> bytes:
    return hmac.digest(_derived(key, b"tag"), data, "sha256")


def _crypt(key: bytes, nonce: bytes, data: bytes) -> bytes:
    stream_key = _derived(key, b"stream")
    blocks = range((len(data) + _BLOCK_BYTES - 1) // _BLOCK_BYTES)
    stream = b"".join(hmac.digest(stream_key, nonce + _BLOCK.pack(number), "sha256") for number in blocks)
    return bytes(left ^ right for left, right in zip(data, stream, strict=False))
