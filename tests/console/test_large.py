"""A cluster with a thousand topics and five hundred groups: lists are searched and paged at the server, and stay quick."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from skyrocket.console.limits import ROWS_PER_PAGE
from skyrocket.console.server import ConsoleServer
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.browser import FITS, TELEPHONE, open_page
from tests.support.pages.console import Visitor, running_console
from tests.support.waiting import WAIT_S_MAX, wait_until

TOPICS, GROUPS = 1_000, 500


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncBroker]:
    with sync.LocalBroker() as running:
        running._run(_fill(running))
        yield running


async def _fill(running: SyncBroker) -> None:
    inside = running._local.broker
    for number in range(TOPICS):
        inside.topics.put(TopicConfig(topic_name=f"topic-{number:04}", read_queue_nums=4, write_queue_nums=4))
    for number in range(GROUPS):
        inside.groups.put(SubscriptionGroupConfig(group_name=f"group-{number:03}"))


@pytest.fixture(scope="module")
def console(broker: SyncBroker) -> Iterator[ConsoleServer]:
    with running_console(broker.nameserver) as running:
        visitor = Visitor(running.url)
        wait_until(lambda: "of 1,000" in visitor.read("/topics"), "all topics are registered")
        visitor.close()
        yield running


def test_a_page_has_some_of_the_topics_and_leads_to_the_others(visitor: Visitor):
    page = visitor.get("/topics")
    assert len(re.findall(r'href="/topics/topic-\d+"', page)) == ROWS_PER_PAGE
    last = visitor.get("/topics?page=40")
    assert 'href="/topics/topic-0999"' in last
    assert 'rel="next"' not in last
    assert "500" in visitor.read("/groups")


def test_a_search_looks_at_all_topics(visitor: Visitor):
    page = visitor.read("/topics?q=0777")
    assert "topic-0777" in page
    assert "1–1 of 1" in page
    assert "group-250" in visitor.read("/groups?q=250")


@pytest.mark.parametrize("path", ["/", "/topics", "/topics?page=40", "/groups", "/groups?page=20", "/messages", "/dead-letters"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 800}, TELEPHONE])
def test_a_page_of_a_large_cluster_in_a_browser(path: str, size: dict[str, int], browser: Browser, console: ConsoleServer):
    with open_page(browser, console.url, viewport=size) as page:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.get_by_role("alert").count() == 0
        assert page.evaluate(FITS)
        assert page.locator("tbody tr").count() <= ROWS_PER_PAGE, "the server sends a page of rows"


def test_the_doctor_examines_a_large_cluster_and_others_are_served_meanwhile(visitor: Visitor):
    began = time.perf_counter()
    longest, pages = 0.0, 0
    while "Examined" not in visitor.read("/doctor"):
        asked = time.perf_counter()
        assert "1–25 of 1,000" in visitor.read("/topics")
        longest, pages = max(longest, time.perf_counter() - asked), pages + 1
        assert asked - began < WAIT_S_MAX, "the examination ends"
    assert pages > 0
    assert longest < max(2.0, time.perf_counter() - began), f"a page took {longest:.1f} s"
    found = visitor.read("/doctor")
    assert "1,000 topics" in found.replace("1000 topics", "1,000 topics")
    assert "Only the first 200 of 500 groups were looked at" in found


@pytest.mark.parametrize("path", ["/topics", "/groups"])
def test_a_page_asks_the_cluster_for_its_own_rows_alone(path: str, visitor: Visitor):
    """Of a thousand topics, a page costs what its rows cost. Compared with a page of one row, because machines differ."""

    def seconds(address: str) -> float:
        began = time.perf_counter()
        visitor.get(address)
        return time.perf_counter() - began

    visitor.get(path)
    one_row = min(seconds(f"{path}?q=077") for _ in range(3))
    whole = min(seconds(path) for _ in range(3))
    assert whole < 2 * ROWS_PER_PAGE * one_row, f"{whole:.2f} s for a page, {one_row:.3f} s for one row"
