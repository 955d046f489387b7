"""The console in a real Chromium: each page empty, filled, large and in error; keys, telephones, light and dark.

Whatever a page logs as an error fails its test: a script that breaks, a file that is missing, a violation of the policy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from skyrocket.client import ClientOptions, Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.console.clusters import ConsoleCluster
from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.browser import FITS, TELEPHONE, open_page
from tests.support.pages.console import running_console
from tests.support.ports import free_port

PAGES = ["/", "/cluster", "/topics", "/groups", "/messages?topic=orders", "/dead-letters", "/waiting", "/access", "/doctor"]
MORE_PAGES = [
    "/new-topic",
    "/topics/orders",
    "/topics/orders/change",
    "/topics/orders/delete",
    "/new-group",
    "/groups/coupons",
    "/groups/coupons/change",
    "/groups/coupons/delete",
    "/groups/coupons/reset?topic=orders&to=first",
    "/messages?topic=orders&by=time",
    "/message?topic=orders&broker=broker-a&queue=0&offset=0",
    "/dead-letters/coupons",
    "/brokers/BROKER",
    "/doctor?group=coupons",
    "/nowhere",
]
FORMS = ["/new-topic", "/new-group"]  # which ask the cluster for nothing, or for little


@pytest.fixture
def page(browser: Browser, console: ConsoleServer) -> Iterator[Page]:
    with open_page(browser, console.url) as one:
        yield one


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    """A broker with forty topics, a group with a backlog, and a message whose body is markup."""
    with sync.LocalBroker() as running:
        with Producer(running.nameserver) as producer, Admin(running.nameserver) as admin:
            admin.topics.create("orders")
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


@pytest.mark.parametrize("path", PAGES + MORE_PAGES)
def test_a_page_of_a_filled_cluster(path: str, page: Page, broker: SyncBroker):
    page.goto(path.replace("BROKER", broker.address))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate(FITS)


def test_pages_of_an_empty_cluster(browser: Browser):
    with (
        sync.LocalBroker() as empty,
        running_console(empty.nameserver) as console,
        open_page(browser, console.url) as page,
    ):
        for path in [*(path for path in PAGES if "?" not in path), *FORMS, f"/brokers/{empty.address}"]:
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.get_by_role("alert").count() == 0, path
        page.goto("/doctor")
        expect(page.get_by_text("1 nameserver, 1 broker")).to_be_visible()


def test_pages_of_a_cluster_that_does_not_answer(browser: Browser):
    with running_console(f"127.0.0.1:{free_port()}") as console, open_page(browser, console.url) as page:
        for path in PAGES:
            page.goto(path)
            expect(page.get_by_role("alert").first).to_contain_text("Failed.")
        for path in (path for path in MORE_PAGES if path not in ("/new-group", "/nowhere", "/doctor?group=coupons")):
            page.goto(path)
            expect(page.get_by_role("alert").first).to_contain_text("No nameserver answers")


@pytest.mark.parametrize("path", PAGES + MORE_PAGES)
def test_a_page_fits_a_telephone(path: str, browser: Browser, console: ConsoleServer, broker: SyncBroker):
    with open_page(browser, console.url, viewport=TELEPHONE, is_mobile=True, has_touch=True) as page:
        page.goto(path.replace("BROKER", broker.address))
        assert page.evaluate(FITS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_the_readers_colours(scheme: str, browser: Browser, console: ConsoleServer):
    with open_page(browser, console.url, color_scheme=scheme) as page:
        page.goto("/")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]


def test_the_menu_of_a_telephone_shows_where_one_is(browser: Browser, console: ConsoleServer):
    with open_page(browser, console.url, viewport=TELEPHONE, is_mobile=True, has_touch=True) as page:
        page.goto("/access")
        expect(page.locator("nav a[aria-current]")).to_be_in_viewport(ratio=1)


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
    page.keyboard.press("g")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
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


# --- the doctor, and several clusters


def test_the_doctor_shows_its_findings_when_it_has_ended(page: Page, broker: SyncBroker):
    with Admin(broker.nameserver) as admin:
        admin.groups.create("switched-off", enabled=False)
    page.goto("/groups/switched-off")
    page.get_by_role("link", name="Ask the doctor").click()
    expect(page.get_by_role("article").first).to_contain_text("Group 'switched-off' may not consume")
    expect(page.locator("[data-live]")).to_have_count(0)
    page.get_by_role("article").get_by_role("link", name="group switched-off").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("switched-off")
    page.keyboard.press("g")
    page.keyboard.press("x")
    expect(page.get_by_role("heading", level=1)).to_have_text("Doctor")


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, TELEPHONE])
def test_a_cluster_is_chosen_by_keyboard_and_the_page_stays(size: dict[str, int], browser: Browser, broker: SyncBroker):
    unreachable = ClientOptions(f"127.0.0.1:{free_port()}")
    clusters = (
        ConsoleCluster("prod", "--cluster prod", ClientOptions(broker.nameserver)),
        ConsoleCluster("stage", "--cluster stage", unreachable),
        ConsoleCluster("broken", "--cluster broken", None, "Its certificate cannot be loaded."),
    )
    with running_console("", clusters=clusters) as console, open_page(browser, console.url, viewport=size) as page:
        page.goto("/")
        expect(page.get_by_text("1 of 1 answer")).to_be_visible()
        expect(page.get_by_text("No nameserver answers")).to_be_visible()
        expect(page.get_by_text("Its certificate cannot be loaded.")).to_be_visible()
        assert page.evaluate(FITS)
        page.goto("/c/prod/topics")
        switch = page.locator("details.switch")
        switch.locator("summary").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(FITS)
        switch.get_by_role("link", name="stage").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert").first).to_contain_text("No nameserver answers")
        assert page.url.endswith("/c/stage/topics")
        switch.locator("summary").click()
        switch.get_by_role("link", name="broken").click()
        expect(page.get_by_role("alert")).to_have_text("Its certificate cannot be loaded.")
