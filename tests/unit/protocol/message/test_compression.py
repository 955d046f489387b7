"""Bodies are compressed and come back; damage, bombs and leftovers are refused."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import lz4.frame
import pytest
import zstandard

from skyrocket.protocol import sysflag
from skyrocket.protocol.errors import CompressionError
from skyrocket.protocol.limits import UNPACKED_BODY_BYTES_MAX
from skyrocket.protocol.message.compression import compress, decompress, plain_body
from skyrocket.protocol.message.record import Record

KINDS = {"lz4": sysflag.COMPRESSION_LZ4, "zstd": sysflag.COMPRESSION_ZSTD, "zlib": sysflag.COMPRESSION_ZLIB, "unsaid": 0}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
MIB = 1024 * 1024
TEXT = b"hello hello hello hello " * 40


@each_kind
@pytest.mark.parametrize("body", [b"", b"x", TEXT, bytes(range(256)) * 4096, bytes(5 * MIB)], ids=len)
def test_a_body_comes_back(kind: int, body: bytes):
    packed = compress(body, kind)
    assert decompress(packed, kind) == body
    assert decompress(packed, kind | sysflag.COMPRESSED | sysflag.BORN_HOST_V6 | sysflag.TRANSACTION_ROLLBACK) == body


@each_kind
@pytest.mark.parametrize("level", [1, 5, 9])
def test_levels(kind: int, level: int):
    packed = compress(TEXT, kind, level)
    assert len(packed) < len(TEXT)
    assert decompress(packed, kind) == TEXT


@pytest.mark.parametrize(("kind", "level"), [(0, -1), (0, 10), (sysflag.COMPRESSION_ZSTD, 0), (sysflag.COMPRESSION_ZSTD, 23)])
def test_an_invalid_level_is_refused(kind: int, level: int):
    with pytest.raises(CompressionError, match="levels"):
        compress(TEXT, kind, level)


def test_no_kind_means_zlib():
    assert compress(TEXT, 0) == compress(TEXT, sysflag.COMPRESSION_ZLIB) == zlib.compress(TEXT, 5)


@pytest.mark.parametrize("kind", [0x400, 0x500, 0x600, 0x700])
def test_an_unknown_kind_of_compression_is_refused(kind: int):
    with pytest.raises(CompressionError, match=f"kind {kind >> 8}"):
        decompress(compress(TEXT, 0), kind)
    with pytest.raises(CompressionError, match=f"kind {kind >> 8}"):
        compress(TEXT, kind)


@pytest.mark.parametrize(
    ("kind", "packed"),
    [  # as Apache's producer writes it
        ("lz4", "04224D186070730F0000006E68656C6C6F2006005068656C6C6F00000000"),
        ("zstd", "28B52FFD00586400003068656C6C6F200100A94B11010000"),
        ("zlib", "785ECB48CDC9C957C8C04E0200A3100AE5"),
    ],
)
def test_bodies_compressed_by_java_are_decompressed(kind: str, packed: str):
    assert decompress(bytes.fromhex(packed), KINDS[kind]) == b"hello hello hello hello hello"


def test_java_refuses_linked_lz4_blocks_so_there_are_none():
    independent = 0x20
    assert compress(bytes(9 * MIB), sysflag.COMPRESSION_LZ4)[4] & independent


@each_kind
def test_the_limit_is_the_largest_body(kind: int):
    packed = compress(TEXT, kind)
    assert decompress(packed, kind, limit=len(TEXT)) == TEXT
    with pytest.raises(CompressionError, match="more than the"):
        decompress(packed, kind, limit=len(TEXT) - 1)
    with pytest.raises(CompressionError, match="more than the 0 bytes"):
        decompress(packed, kind, limit=0)
    assert decompress(compress(b"", kind), kind, limit=0) == b""


def zstd_bomb(zeros: bytes, *, says_its_size: bool) -> bytes:
    return zstandard.ZstdCompressor(level=9, write_content_size=says_its_size).compress(zeros)


BOMBS = {
    "lz4": (sysflag.COMPRESSION_LZ4, partial(lz4.frame.compress, block_linked=False)),
    "zstd": (sysflag.COMPRESSION_ZSTD, partial(zstd_bomb, says_its_size=False)),
    "zstd-sized": (sysflag.COMPRESSION_ZSTD, partial(zstd_bomb, says_its_size=True)),
    "zlib": (sysflag.COMPRESSION_ZLIB, zlib.compress),
}


@pytest.mark.parametrize(("kind", "made_of"), BOMBS.values(), ids=BOMBS)
def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(kind: int, made_of: Callable[[bytes], bytes]):
    bomb = made_of(bytes(UNPACKED_BODY_BYTES_MAX + 1))
    limit = 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match="more than the"):
            decompress(bomb, kind, limit)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 * limit
    with pytest.raises(CompressionError, match="more than the"):
        decompress(bomb, kind, UNPACKED_BODY_BYTES_MAX)


@each_kind
def test_a_body_cut_anywhere_is_refused(kind: int):
    packed = compress(TEXT, kind)
    for length in range(len(packed)):
        with pytest.raises(CompressionError):
            decompress(packed[:length], kind)


@each_kind
@pytest.mark.parametrize("leftover", [b"\0", b"garbage", "itself"])
def test_a_body_with_something_after_it_is_refused(kind: int, leftover: bytes | str):
    packed = compress(TEXT, kind)
    with pytest.raises(CompressionError):
        decompress(packed + (packed if isinstance(leftover, str) else leftover), kind)


@each_kind
def test_a_flipped_bit_is_refused_or_read_but_never_anything_else(kind: int):
    packed = compress(TEXT, kind)
    for bit in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            unpacked = decompress(bytes(damaged), kind, limit=MIB)
        except CompressionError:
            continue
        assert len(unpacked) <= MIB


@each_kind
@pytest.mark.parametrize("body", [b"x", b"plain text", bytes(100), b"\xff" * 100])
def test_an_uncompressed_body_is_refused(kind: int, body: bytes):
    with pytest.raises(CompressionError):
        decompress(body, kind)


@each_kind
def test_the_plain_body_of_a_record(kind: int):
    packed = compress(TEXT, kind)
    assert plain_body(Record(topic="t", body=packed, sys_flag=kind | sysflag.COMPRESSED)) == TEXT
    assert plain_body(Record(topic="t", body=packed, sys_flag=kind)) == packed
    assert plain_body(Record(topic="t", body=b"", sys_flag=kind | sysflag.COMPRESSED)) == b""
    with pytest.raises(CompressionError, match="more than the 10 bytes"):
        plain_body(Record(topic="t", body=packed, sys_flag=kind | sysflag.COMPRESSED), limit=10)
