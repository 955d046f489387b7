"""Compressed bodies: zlib, LZ4 (its frame format) and zstd, told apart by three bits of the sys flag.

Unpacking is bounded: a small body that would grow beyond the limit is refused as it passes the limit, not once it has filled
the memory. A body is one stream and nothing after it.
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

LEVEL_DEFAULT: Final = 5  # Apache's producers use it too

_LZ4_PIECE_BYTES_MIN = 64 * 1024
_ZSTD_PIECE_BYTES_MAX = 256
_ZSTD_GROWTH_MAX = 32 * 1024  # its densest block is 4 bytes and becomes 128 KiB


class Codec(NamedTuple):
    """One kind of compression."""

    name: str
    levels: range
    pack: Callable[[bytes, int], bytes]  # (body, level)
    unpack: Callable[[bytes, int], bytes]  # (body, limit): at most a little more than `limit` bytes, or CompressionError


def _pack_lz4(body: bytes, _level: int) -> bytes:
    """Blocks stand alone because Java's reader refuses linked ones. There are no levels: Java always takes the fast way."""
    packed: bytes = lz4.frame.compress(body, block_linked=False, store_size=False)
    return packed


def _unpack_lz4(body: bytes, limit: int) -> bytes:
    """Piece by piece, because the library allocates as much as a piece may have."""
    unpacker = lz4.frame.LZ4FrameDecompressor()
    piece_bytes_max = max(_LZ4_PIECE_BYTES_MIN, 4 * len(body))
    pieces: list[bytes] = []
    room = limit + 1
    rest = body
    try:
        while room > 0 and not unpacker.eof:
            piece = unpacker.decompress(rest, min(room, piece_bytes_max))
            if not piece and not unpacker.eof:
                raise CompressionError("An LZ4 body ends before its frame does.")
            pieces.append(piece)
            room -= len(piece)
            rest = b""  # the unpacker keeps what it has not used yet
    except RuntimeError as error:
        raise CompressionError(f"An LZ4 body is damaged: {error}.") from error
    return _checked("An LZ4", b"".join(pieces), limit, complete=unpacker.eof, after=unpacker.unused_data)


def _pack_zstd(body: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(body)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    """The library does not bound what comes out, so what goes in is sliced: the less room is left, the thinner."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).decompressobj()
    pieces: list[bytes] = []
    room = limit
    at = 0
    try:
        while room >= 0 and at < len(body) and not unpacker.eof:
            stop = at + min(_ZSTD_PIECE_BYTES_MAX, 1 + room // _ZSTD_GROWTH_MAX)
            piece = unpacker.decompress(body[at:stop])
            pieces.append(piece)
            room -= len(piece)
            at = stop
    except zstandard.ZstdError as error:
        raise CompressionError(f"A zstd body is damaged: {error}.") from error
    return _checked("A zstd", b"".join(pieces), limit, complete=unpacker.eof, after=unpacker.unused_data or body[at:])


def _pack_zlib(body: bytes, level: int) -> bytes:
    return zlib.compress(body, level)


def _unpack_zlib(body: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(body, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"A zlib body is damaged: {error}.") from error
    return _checked("A zlib", unpacked, limit, complete=unpacker.eof, after=unpacker.unused_data)


def _checked(a_kind_of: str, unpacked: bytes, limit: int, *, complete: bool, after: bytes | None) -> bytes:
    if len(unpacked) > limit:
        raise CompressionError(f"{a_kind_of} body has more than the {limit} bytes allowed when it is unpacked.")
    if not complete:
        raise CompressionError(f"{a_kind_of} body ends before its frame does.")
    if after:
        raise CompressionError(f"{a_kind_of} body goes on after its frame, with {len(after)} bytes or more.")
    return unpacked


_ZLIB = Codec("zlib", range(10), _pack_zlib, _unpack_zlib)
_CODECS: Final = {
    0: _ZLIB,  # clients before 5.0 know nothing else, and do not say so
    COMPRESSION_LZ4: Codec("LZ4", range(23), _pack_lz4, _unpack_lz4),
    COMPRESSION_ZSTD: Codec("zstd", range(1, 23), _pack_zstd, _unpack_zstd),
    COMPRESSION_ZLIB: _ZLIB,
}


def _codec(sys_flag: int) -> Codec:
    codec = _CODECS.get(sys_flag & COMPRESSION_MASK)
    if codec is None:
        raise CompressionError(
            f"A body's compression is of kind {(sys_flag & COMPRESSION_MASK) >> 8}; it is 1 (LZ4), 2 (zstd) or 3 (zlib)."
        )
    return codec


def compress(body: bytes, kind: int, level: int = LEVEL_DEFAULT) -> bytes:
    """`kind` is one of the sys flag's COMPRESSION_ values. The message's sys flag needs it, and COMPRESSED, too."""
    codec = _codec(kind)
    if level not in codec.levels:
        raise CompressionError(f"{codec.name} has levels {codec.levels[0]} to {codec.levels[-1]}, not {level}.")
    return codec.pack(body, level)


def decompress(body: bytes, sys_flag: int, limit: int = UNPACKED_BODY_BYTES_MAX) -> bytes:
    """The body as it was before compression, of at most `limit` bytes, by the kind in `sys_flag`."""
    return _codec(sys_flag).unpack(body, limit)


def plain_body(record: Record, limit: int = UNPACKED_BODY_BYTES_MAX) -> bytes:
    """The body as its producer gave it. An empty one stays empty even when it says it is compressed, as in Java."""
    if record.sys_flag & COMPRESSED and record.body:
        return decompress(record.body, record.sys_flag, limit)
    return record.body
