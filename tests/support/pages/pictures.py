"""Looks at pictures that a browser has taken."""

from __future__ import annotations

import struct
import zlib


def first_pixel(png: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Return width, height and the colour of the pixel in the top left corner, which no filter changes."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, head = 8, b"", (0, 0)
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        content = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            head = struct.unpack_from(">II", content)
        elif kind == b"IDAT":
            packed += content
        at += size + 12
    return *head, tuple(zlib.decompress(packed)[1:4])
