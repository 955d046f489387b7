"""The console in a real Chromium: each page empty, filled, large and in error; keys, telephones, light and dark.

Whatever a page logs as an error fails its test: a script that breaks, a file that is missing, a violation of the policy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from skyrocket.client import Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.console import running_console
from tests.support.ports import free_port
from tests.support.tools import need
from tests.support.waiting import WAIT_S_MAX

CHROMIUM = Path(os.environ.get("SKYROCKET_CHROMIUM", "/usr/bin/chromium"))
WAIT_MS = WAIT_S_MAX * 1000
TELEPHONE = {"width": 390, "height": 844}
PAGES = ["/", "/cluster", "/topics", "/groups", "/messages?topic=orders", "/dead-letters", "/waiting", "/access"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        need("chromium")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, console: ConsoleServer) -> Iterator[Page]:
    yield from open_page(browser, console.url)


# What Chromium logs by itself about an answer with an error status, and in a test about a network that is gone.
NOT_OURS = ("the server responded with a status of", "net::ERR_INTERNET_DISCONNECTED")


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


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    """A broker with forty topics, a group with a backlog, and a message whose body is markup."""
    with sync.LocalBroker() as running:
        with Producer(running.nameserver) as producer, Admin(running.nameserver) as admin:
            for number in range(12):
                producer.send(Message("orders", f'{{"order": {number}}}'.encode(), tag="paid", keys=f"o-{number}"))
            producer.send(Message("orders", b"<script>document.title='owned'</script>", keys="hostile"))
            for number in range(40):
                admin.topics.create(f"topic-{number:02}", queues=1)
            admin.groups.create("coupons")
            admin.offsets.reset("coupons", "orders", "first")
        yield running


LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"  # live parts are fetched when a page is seen again


# --- each page


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_filled_cluster(path: str, page: Page):
    page.goto(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page does not scroll sideways"


def test_pages_of_an_empty_cluster(browser: Browser):
    with sync.LocalBroker() as empty, running_console(empty.nameserver) as console:
        for page in open_page(browser, console.url):
            for path in [path for path in PAGES if "?" not in path]:
                page.goto(path)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                assert page.get_by_role("alert").count() == 0, path


def test_pages_of_a_cluster_that_does_not_answer(browser: Browser):
    with running_console(f"127.0.0.1:{free_port()}") as console:
        for page in open_page(browser, console.url):
            for path in PAGES:
                page.goto(path)
                expect(page.get_by_role("alert").first).to_contain_text("Failed.")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_a_telephone(path: str, browser: Browser, console: ConsoleServer):
    for page in open_page(browser, console.url, viewport=TELEPHONE, is_mobile=True, has_touch=True):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page does not scroll sideways"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_the_readers_colours(scheme: str, browser: Browser, console: ConsoleServer):
    for page in open_page(browser, console.url, color_scheme=scheme):
        page.goto("/")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]


# --- work with it


def test_the_overview_is_live(page: Page, broker: SyncBroker):
    page.goto("/")
    with Admin(broker.nameserver) as admin:
        before = len(admin.topics.names())
        expect(page.locator("dd", has_text=f"{before}").last).to_be_visible()
        admin.topics.create("born-while-you-look")
        expect(page.locator("dd", has_text=f"{before + 1}").last).to_be_visible()
        admin.topics.delete("born-while-you-look")
    expect(page.locator("#live-state")).to_have_text("live")
    expect(page.locator("svg.chart").first).to_be_visible()


def test_a_page_says_when_it_is_no_longer_live(page: Page):
    page.goto("/")
    page.context.set_offline(True)
    page.evaluate(LOOK_AGAIN)
    expect(page.locator("#live-state")).to_contain_text("not live")
    page.context.set_offline(False)
    page.evaluate(LOOK_AGAIN)
    expect(page.locator("#live-state")).to_have_text("live")


def test_keys_open_pages_and_the_search(page: Page):
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    page.keyboard.press("/")
    page.keyboard.type("topic-07")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="topic-07")).to_be_visible()
    expect(page.get_by_role("link", name="topic-08")).to_have_count(0)
    page.locator("body").press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_topic_is_created_tried_and_deleted_by_keyboard_and_mouse(page: Page):
    page.goto("/topics")
    page.get_by_role("link", name="New topic").click()
    page.get_by_label("Name").fill("browser-topic")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Topic browser-topic is created.")
    page.get_by_label("Body").fill("hello")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status")).to_contain_text("Sent message")
    page.get_by_role("link", name="Messages", exact=True).last.click()
    expect(page.get_by_role("cell", name="hello")).to_be_visible()
    page.goto("/topics/browser-topic/delete")
    page.get_by_label("Type the topic's name to confirm").fill("browser-topic")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_role("status")).to_have_text("Topic browser-topic is deleted.")
    page.reload()
    expect(page.get_by_role("status")).to_have_count(0)


def test_offsets_are_reset_after_a_preview(page: Page):
    page.goto("/groups/coupons")
    expect(page.get_by_text("Lag 13 messages")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("13 messages will be skipped")).to_be_visible()
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_text("Lag 0 messages")).to_be_visible()


def test_a_body_that_is_markup_stays_text(page: Page):
    page.goto("/messages?topic=orders&by=key&words=hostile")
    page.locator("td a").first.click()
    expect(page.locator("#body")).to_have_text("<script>document.title='owned'</script>")
    assert "owned" not in page.title()
    page.get_by_role("link", name="Hex").click()
    expect(page.locator("#body")).to_contain_text("3c 73 63 72 69 70 74")
