"""Compressed bodies: zlib, LZ4 (frame format) and zstd. Three bits of the sys flag tell which.

Decompression is bounded: it stops as soon as the output passes the limit, before it fills the memory. A body must be exactly one
stream, with nothing after it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.limits import UNPACKED_BODY_BYTES_MAX, ZSTD_WINDOW_BYTES_MAX
from skyrocket.protocol.message.record import Record
from skyrocket.protocol.sysflag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZLIB, COMPRESSION_ZSTD

LEVEL_DEFAULT: Final = 5  # as in Apache's producers

_LZ4_PIECE_BYTES_MIN = 64 * 1024
_ZSTD_PIECE_BYTES_MAX = 256
_ZSTD_GROWTH_MAX = 32 * 1024  # a block of 4 bytes can expand to 128 KiB


class Codec(NamedTuple):
    """A compression algorithm."""

    name: str
    levels: range
    pack: Callable[[bytes, int], bytes]  # (body, level)
    unpack: Callable[[bytes, int], bytes]  # (body, limit): raises CompressionError above the limit


def _pack_lz4(body: bytes, _level: int) -> bytes:
    """Compress with independent blocks, because Java's reader refuses linked ones. The level is ignored, as in Java."""
    packed: bytes = lz4.frame.compress(body, block_linked=False, store_size=False)
    return packed


def _unpack_lz4(body: bytes, limit: int) -> bytes:
    """Decompress piece by piece, because the library allocates the maximum size of a piece."""
    decompressor = lz4.frame.LZ4FrameDecompressor()
    piece_bytes_max = max(_LZ4_PIECE_BYTES_MIN, 4 * len(body))
    pieces: list[bytes] = []
    room = limit + 1
    rest = body
    try:
        while room > 0 and not decompressor.eof:
            piece = decompressor.decompress(rest, min(room, piece_bytes_max))
            if not piece and not decompressor.eof:
                raise CompressionError("An LZ4 body ends before its frame does.")
            pieces.append(piece)
            room -= len(piece)
            rest = b""  # the decompressor keeps unused input
    except RuntimeError as error:
        raise CompressionError(f"An LZ4 body is damaged: {error}.") from error
    return _check_unpacked("An LZ4", b"".join(pieces), limit, complete=decompressor.eof, after=decompressor.unused_data)


def _pack_zstd(body: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(body)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    """Decompress in slices of the input, because the library does not bound its output. Slices shrink as the limit comes near."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).decompressobj()
    pieces: list[bytes] = []
    room = limit
    at = 0
    try:
        while room >= 0 and at < len(body) and not decompressor.eof:
            stop = at + min(_ZSTD_PIECE_BYTES_MAX, 1 + room // _ZSTD_GROWTH_MAX)
            piece = decompressor.decompress(body[at:stop])
            pieces.append(piece)
            room -= len(piece)
            at = stop
    except zstandard.ZstdError as error:
        raise CompressionError(f"A zstd body is damaged: {error}.") from error
    return _check_unpacked(
        "A zstd", b"".join(pieces), limit, complete=decompressor.eof, after=decompressor.unused_data or body[at:]
    )


def _pack_zlib(body: bytes, level: int) -> bytes:
    return zlib.compress(body, level)


def _unpack_zlib(body: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        unpacked = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"A zlib body is damaged: {error}.") from error
    return _check_unpacked("A zlib", unpacked, limit, complete=decompressor.eof, after=decompressor.unused_data)


def _check_unpacked(kind_name: str, unpacked: bytes, limit: int, *, complete: bool, after: bytes | None) -> bytes:
    if len(unpacked) > limit:
        raise CompressionError(f"{kind_name} body has more than the {limit} bytes allowed when it is unpacked.")
    if not complete:
        raise CompressionError(f"{kind_name} body ends before its frame does.")
    if after:
        raise CompressionError(f"{kind_name} body goes on after its frame, with {len(after)} bytes or more.")
    return unpacked


_ZLIB = Codec("zlib", range(10), _pack_zlib, _unpack_zlib)
_CODECS: Final = {
    0: _ZLIB,  # clients before 5.0 only have zlib, and do not set the bits
    COMPRESSION_LZ4: Codec("LZ4", range(23), _pack_lz4, _unpack_lz4),
    COMPRESSION_ZSTD: Codec("zstd", range(1, 23), _pack_zstd, _unpack_zstd),
    COMPRESSION_ZLIB: _ZLIB,
}


def _codec(sys_flag: int) -> Codec:
    codec = _CODECS.get(sys_flag & COMPRESSION_MASK)
    if codec is None:
        raise CompressionError(
            f"A body's compression is of kind {(sys_flag & COMPRESSION_MASK) >> 8}; it must be 1 (LZ4), 2 (zstd) or 3 (zlib)."
        )
    return codec


def compress(body: bytes, kind: int, level: int = LEVEL_DEFAULT) -> bytes:
    """Compress a body. `kind` is a COMPRESSION_ value; set it and COMPRESSED in the message's sys flag, too."""
    codec = _codec(kind)
    if level not in codec.levels:
        raise CompressionError(f"{codec.name} has levels {codec.levels[0]} to {codec.levels[-1]}, not {level}.")
    return codec.pack(body, level)


def decompress(body: bytes, sys_flag: int, limit: int = UNPACKED_BODY_BYTES_MAX) -> bytes:
    """Decompress a body by the kind in `sys_flag`. Raise CompressionError if it is damaged or has more than `limit` bytes."""
    return _codec(sys_flag).unpack(body, limit)


def plain_body(record: Record, limit: int = UNPACKED_BODY_BYTES_MAX) -> bytes:
    """Return the decompressed body of a record. As in Java, an empty body stays empty even if it is marked as compressed."""
    if record.sys_flag & COMPRESSED and record.body:
        return decompress(record.body, record.sys_flag, limit)
    return record.body
