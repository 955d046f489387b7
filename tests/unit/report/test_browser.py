"""Reports in a real Chromium: empty, normal and large ones, those of `table`, that of the sign-up demo; light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.report_pictures import PAGES, SCHEMES, WIDTH, find_chromium, take_picture

from skyrocket.report import render_page
from tests.support.pages.pictures import first_pixel
from tests.support.tools import need
from tests.unit.pipelines.signup.results import clean_page
from tests.unit.pipelines.table.summaries import TABLE_PAGES

HEIGHT = 600
EVERY_PAGE = {**PAGES, **TABLE_PAGES, "signup": clean_page}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_is_drawn_in_the_readers_colours(name: str, scheme: str, tmp_path: Path):
    chromium = find_chromium()
    if chromium is None:
        need("chromium")
    assert chromium is not None
    picture = tmp_path / "page.png"
    take_picture(chromium, render_page(EVERY_PAGE[name]()), picture, scheme=scheme, height=HEIGHT)
    width, height, colour = first_pixel(picture.read_bytes())
    assert (width, height) == (WIDTH, HEIGHT)
    assert (sum(colour) > 600) == (scheme == "light")
    assert picture.stat().st_size > 8_000, "the page is blank"
