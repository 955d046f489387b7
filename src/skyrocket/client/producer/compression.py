"""Compression of message bodies: which bodies, and how. A body that does not become smaller is sent as it is."""

from __future__ import annotations

from typing import Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.limits import BODY_BYTES_MAX
from skyrocket.protocol.message.compression import LEVEL_DEFAULT, compress

OVER_BYTES_DEFAULT: Final = 4096
SLOW_BYTES: Final = 128 * 1024  # compressing a body of this size takes milliseconds, so a thread does it
_KINDS: Final = {
    "zlib": sysflag.COMPRESSION_ZLIB,
    "lz4": sysflag.COMPRESSION_LZ4,
    "zstd": sysflag.COMPRESSION_ZSTD,
}


class Compression:
    """Compresses bodies of a size and more with one algorithm."""

    def __init__(self, name: str | None = "zlib", over_bytes: int = OVER_BYTES_DEFAULT, level: int = LEVEL_DEFAULT) -> None:
        """`name` is zlib, lz4, zstd, or None for no compression."""
        if name is not None and name not in _KINDS:
            raise ConfigurationError(f"compression={name!r} is unknown. Use one of {', '.join(_KINDS)}, or None.")
        self._kind = _KINDS[name] if name is not None else 0
        self._over_bytes = over_bytes
        self._level = level
        if self._kind:
            try:
                compress(b"", self._kind, level)
            except CompressionError as error:
                raise ConfigurationError(str(error)) from error

    def wants(self, body: bytes) -> bool:
        """Whether the body is large enough to be compressed."""
        return bool(self._kind) and len(body) >= self._over_bytes

    @property
    def plain_bytes_max(self) -> int:
        """The size of the largest body that is not compressed."""
        return self._over_bytes - 1 if self._kind else BODY_BYTES_MAX

    def is_slow(self, body: bytes) -> bool:
        """Whether compressing the body takes so long that it belongs in a thread."""
        return self.wants(body) and len(body) >= SLOW_BYTES

    def pack(self, body: bytes) -> tuple[bytes, int]:
        """Return the body to send, and the system flags that name its compression."""
        if self.wants(body):
            packed = compress(body, self._kind, self._level)
            if len(packed) < len(body):
                return packed, sysflag.COMPRESSED | self._kind
        return body, 0
