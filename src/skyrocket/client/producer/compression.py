"""Which bodies are compressed, and how. A body that does not become smaller goes as it is."""

from __future__ import annotations

from typing import Final

from skyrocket.client.errors import ConfigurationError
from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.message.compression import LEVEL_DEFAULT, compress

OVER_BYTES_DEFAULT: Final = 4096
SLOW_BYTES: Final = 128 * 1024  # from here on it takes milliseconds, and a thread does it
_KINDS: Final = {
    "zlib": sysflag.COMPRESSION_ZLIB,
    "lz4": sysflag.COMPRESSION_LZ4,
    "zstd": sysflag.COMPRESSION_ZSTD,
}


class Compression:
    def __init__(self, name: str | None = "zlib", over_bytes: int = OVER_BYTES_DEFAULT, level: int = LEVEL_DEFAULT) -> None:
        """`name` is one of the three, or None for no compression."""
        if name is not None and name not in _KINDS:
            raise ConfigurationError(f"Compression is one of {', '.join(_KINDS)} or None, not {name!r}.")
        self._kind = _KINDS[name] if name is not None else 0
        self._over_bytes = over_bytes
        self._level = level
        if self._kind:
            try:
                compress(b"", self._kind, level)
            except CompressionError as error:
                raise ConfigurationError(str(error)) from error

    def wants(self, body: bytes) -> bool:
        return bool(self._kind) and len(body) >= self._over_bytes

    @property
    def wanted_from_bytes(self) -> int | None:
        """From which size on a body is compressed; None: never."""
        return self._over_bytes if self._kind else None

    def is_slow(self, body: bytes) -> bool:
        return self.wants(body) and len(body) >= SLOW_BYTES

    def pack(self, body: bytes) -> tuple[bytes, int]:
        """The body to send, and the bits that tell it to the reader."""
        if self.wants(body):
            packed = compress(body, self._kind, self._level)
            if len(packed) < len(body):
                return packed, sysflag.COMPRESSED | self._kind
        return body, 0
