"""Reports in a real Chromium: those of every job, empty, normal and large; in light and dark, on a desk and on a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tools.job_pages import JOB_PAGES
from tools.report_pictures import PAGES, SCHEMES, WIDTH, find_chromium, take_picture

from skyrocket.cli.pipeline_jobs.jobs import JOBS
from skyrocket.report import render_page
from tests.support.pages.browser import FITS, TELEPHONE, open_page, running_browser
from tests.support.pages.pictures import first_pixel
from tests.support.tools import need
from tests.unit.pipelines.signup.results import clean_page
from tests.unit.pipelines.table.summaries import TABLE_PAGES

HEIGHT = 600
EVERY_PAGE = {**PAGES, **TABLE_PAGES, **JOB_PAGES, "signup-demo": clean_page}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


def test_every_job_has_its_pages():
    assert {name.partition("-")[0] for name in EVERY_PAGE} >= {name.partition("-")[0] for name in JOBS}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", EVERY_PAGE)
def test_a_page_is_drawn_in_the_readers_colours(browser: Browser, name: str, scheme: str, tmp_path: Path):
    """It logs no error, loads nothing from elsewhere, and does not scroll sideways."""
    file = tmp_path / "report.html"
    file.write_text(render_page(EVERY_PAGE[name]()), encoding="utf-8")
    size = {"width": WIDTH, "height": HEIGHT}
    with open_page(browser, file.as_uri(), color_scheme=scheme, viewport=size) as page:
        page.goto(file.as_uri())
        picture = page.screenshot()
        assert page.evaluate(FITS), "it does not fit a desk"
        page.set_viewport_size(TELEPHONE)
        assert page.evaluate(FITS), "it does not fit a telephone"
    width, height, colour = first_pixel(picture)
    assert (width, height) == (WIDTH, HEIGHT)
    assert (sum(colour) > 600) == (scheme == "light")
    assert len(picture) > 8_000, "the page is blank"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pictures_of_pages_are_taken_in_both_colours(scheme: str, tmp_path: Path):
    chromium = find_chromium()
    if chromium is None:
        need("chromium")
    assert chromium is not None
    picture = tmp_path / "page.png"
    take_picture(chromium, render_page(EVERY_PAGE["normal"]()), picture, scheme=scheme, height=HEIGHT)
    width, height, colour = first_pixel(picture.read_bytes())
    assert (width, height) == (WIDTH, HEIGHT)
    assert (sum(colour) > 600) == (scheme == "light")
    assert picture.stat().st_size > 8_000, "the page is blank"
