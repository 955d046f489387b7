"""Reports in a real Chromium: empty, normal and large, in light and in dark."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tools.report_pictures import PAGES, SCHEMES, WIDTH, find_chromium, take_picture

from skyrocket.report import render_page
from tests.support.tools import need

HEIGHT = 600


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


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_in_the_readers_colours(name: str, scheme: str, tmp_path: Path):
    chromium = find_chromium()
    if chromium is None:
        need("chromium")
    assert chromium is not None
    picture = tmp_path / "page.png"
    take_picture(chromium, render_page(PAGES[name]()), picture, scheme=scheme, height=HEIGHT)
    width, height, colour = first_pixel(picture.read_bytes())
    assert (width, height) == (WIDTH, HEIGHT)
    assert (sum(colour) > 600) == (scheme == "light")
    assert picture.stat().st_size > 8_000, "the page is blank"
