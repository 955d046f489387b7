"""People at work in a real Chromium, on a cluster with access control: login, a member, dead letters, what waits, users, rules.

In light and in dark, every text can be read: its contrast to what is behind it is measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from skyrocket.client import ClientOptions, Credentials, Message, Received
from skyrocket.client.sync import Admin, Consumer, Producer
from skyrocket.console.security.users import ConsoleRole, ConsoleUser, format_user, hash_password
from skyrocket.console.server import ConsoleServer
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.client.consumer_support import QUICK
from tests.support.pages.browser import FITS, TELEPHONE, open_page
from tests.support.pages.console import running_console
from tests.support.waiting import wait_until

ROOT = {"username": "root-user", "password": "root-secret"}
SETTINGS = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": json.dumps(ROOT)}
CREDENTIALS = Credentials(ROOT["username"], ROOT["password"])
PASSWORD = "console-password"
LETTERS = 3
CONTRAST_MIN = 4.5  # WCAG 2, level AA, for text of an ordinary size
# The texts of a page whose contrast to the nearest background is too small: what they say, and the contrast.
TOO_FAINT = """(least) => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = channels(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !element.checkVisibility() || element.closest("svg")) continue;
    const pair = [light(channels(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < least) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    """A broker that asks who its clients are, with dead letters of a group and a message that waits for two hours."""
    with sync.LocalBroker(SETTINGS) as running:
        options = ClientOptions(running.nameserver, credentials=CREDENTIALS)
        with ExitStack() as stack:
            admin, producer = stack.enter_context(Admin(options=options)), stack.enter_context(Producer(options=options))
            admin.topics.create("orders", queues=2)
            refusing = Consumer(options=options, group="refusing", start="first", retries_max=0, consumer_limits=QUICK)

            @refusing.on("orders")
            def refuse(message: Received) -> None:
                raise ValueError(f"no stock for {message.keys}")

            stack.enter_context(refusing)
            for number in range(LETTERS):
                producer.send(Message("orders", b"order %d" % number, keys=f"o-{number}", tag="paid"))
            producer.send(Message("orders", b"later", delay_level=18))
            wait_until(lambda: "%DLQ%refusing" in admin.topics.names(internal=True), "the first dead letter")
            wait_until(lambda: admin.topics.status("%DLQ%refusing").messages == LETTERS, "all dead letters")
        yield running


@pytest.fixture(scope="module")
def console(broker: SyncBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    users = tmp_path_factory.mktemp("users") / "users.txt"
    roles = {"ann": ConsoleRole.OPERATOR, "vic": ConsoleRole.VIEWER}
    users.write_text(
        "\n".join(format_user(ConsoleUser(one, role, hash_password(PASSWORD, b"s" * 16))) for one, role in roles.items())
    )
    client = ClientOptions(broker.nameserver, credentials=CREDENTIALS)
    with running_console(broker.nameserver, client=client, users=users) as running:
        yield running


def log_in(page: Page, name: str = "ann", password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


@pytest.fixture
def page(browser: Browser, console: ConsoleServer) -> Iterator[Page]:
    with open_page(browser, console.url) as one:
        one.goto("/login")
        log_in(one)
        expect(one.get_by_role("heading", level=1)).to_be_visible()
        yield one


@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, TELEPHONE])
def test_a_person_logs_in_and_out(size: dict[str, int], browser: Browser, console: ConsoleServer):
    with open_page(browser, console.url, viewport=size) as page:
        page.goto("/groups/refusing")
        expect(page.get_by_label("Name")).to_be_focused()
        assert page.evaluate(FITS)
        log_in(page, password="wrong-password")
        expect(page.get_by_role("alert")).to_have_text("The name or the password is wrong.")
        log_in(page, "vic")
        expect(page.get_by_role("heading", level=1)).to_have_text("refusing")
        expect(page.get_by_text("vic (viewer)")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        page.go_back()
        page.reload()
        expect(page.get_by_role("button", name="Log in")).to_be_visible()


def test_a_member_tells_its_queues_and_stacks(page: Page, broker: SyncBroker):
    options = ClientOptions(broker.nameserver, credentials=CREDENTIALS)
    with Consumer(options=options, group="coupons", topics="orders", consumer_limits=QUICK) as consumer:
        client_id = consumer.client_id
        with Admin(options=options) as admin:
            wait_until(lambda: [one.client_id for one in admin.groups.members("coupons").members] == [client_id], "the member")
            wait_until(lambda: len(admin.groups.member_state("coupons", client_id).queues) >= 2, "its queues")
        page.goto("/groups/coupons")
        page.get_by_role("link", name=client_id).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(client_id)
        expect(page.get_by_role("row", name="orders broker-a 1")).to_be_visible()
        page.get_by_role("link", name="Ask for the stacks").click()
        expect(page.locator("pre")).to_contain_text("thread")
        assert page.evaluate(FITS)


def test_dead_letters_are_found_chosen_and_resent(page: Page):
    page.goto("/dead-letters")
    page.get_by_role("link", name="refusing").first.click()
    expect(page.locator("tbody tr")).to_have_count(LETTERS)
    expect(page.get_by_text("order 1")).to_be_visible()
    page.get_by_label("Contains").fill("order 2")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("all", exact=True).check()
    page.get_by_role("button", name="Resend the chosen letters").click()
    expect(page.get_by_role("status")).to_contain_text("1 of 1 letters will be delivered to refusing again")
    assert page.evaluate(FITS)


def test_what_waits_is_shown(page: Page):
    page.goto("/waiting")
    expect(page.get_by_role("row", name="18 2h 1 0")).to_be_visible()
    expect(page.get_by_text("No transaction waits.")).to_be_visible()


def test_users_and_rules_are_made_and_deleting_them_asks(page: Page):
    page.goto("/access")
    made = page.locator("form[action$='/access/users']")
    made.get_by_label("Name").fill("alice")
    made.get_by_label("Password").fill("alice-secret")
    made.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_have_text("User alice is created.")
    rule = page.locator("form[action$='/access/rules']")
    rule.get_by_label("User").fill("alice")
    rule.get_by_label("Resource").fill("Topic:orders")
    rule.get_by_label("Pub").check()
    rule.get_by_role("button", name="Write").click()
    expect(page.get_by_role("status")).to_contain_text("Allow Pub on Topic:orders for alice")
    deletion = page.locator("form[action$='/rules/delete']")
    deletion.get_by_role("button", name="Delete").click()
    expect(deletion.get_by_label("Type the resource")).to_be_focused()  # the browser wants the field filled in
    expect(page.get_by_role("cell", name="Topic:orders", exact=True)).to_be_visible()
    deletion.get_by_label("Type the resource").fill("Topic:orders")
    deletion.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("The rule of alice for Topic:orders is deleted.")
    user = page.locator("form[action$='/alice/delete']")
    user.get_by_label("Type the name").fill("alice")
    user.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status")).to_have_text("User alice is deleted, with its rules.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_in_dark(scheme: str, browser: Browser, console: ConsoleServer):
    with open_page(browser, console.url, color_scheme=scheme) as page:
        page.goto("/login")
        assert page.evaluate(TOO_FAINT, 22), "no contrast is more than 21, so every text is found"
        assert page.evaluate(TOO_FAINT, CONTRAST_MIN) == []
        log_in(page)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        for path in ("/", "/topics", "/groups/refusing", "/dead-letters/refusing", "/waiting", "/access", "/doctor", "/nowhere"):
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            assert page.evaluate(TOO_FAINT, CONTRAST_MIN) == [], path
