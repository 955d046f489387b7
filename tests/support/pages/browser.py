"""A real Chromium for tests of pages. Whatever a page logs as an error fails its test, and so does a file from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.support.tools import need
from tests.support.waiting import WAIT_S_MAX

CHROMIUM = Path(os.environ.get("SKYROCKET_CHROMIUM", "/usr/bin/chromium"))
WAIT_MS = WAIT_S_MAX * 1000
TELEPHONE = {"width": 390, "height": 844}
FITS = "document.documentElement.scrollWidth <= innerWidth"  # the page does not scroll sideways
# What Chromium logs by itself about an answer with an error status, and in a test about a network that is gone.
NOT_OURS = ("the server responded with a status of", "net::ERR_INTERNET_DISCONNECTED")


@contextmanager
def running_browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        need("chromium")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        running.close()


@contextmanager
def open_page(browser: Browser, url: str, **options: object) -> Iterator[Page]:
    """Open a browser window. It must load nothing from elsewhere, and log no error."""
    context = browser.new_context(base_url=url, **options)  # type: ignore[arg-type]
    context.set_default_timeout(WAIT_MS)
    one = context.new_page()
    errors: list[str] = []
    one.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    one.on("pageerror", lambda error: errors.append(str(error)))
    one.on("request", lambda request: errors.append(request.url) if not request.url.startswith(url) else None)
    yield one
    context.close()
    assert [error for error in errors if not any(text in error for text in NOT_OURS)] == []
