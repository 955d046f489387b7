"""A cluster with a thousand topics and five hundred groups: lists are searched and paged at the server, and stay quick."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from skyrocket.console.limits import ROWS_PER_PAGE
from skyrocket.console.server import ConsoleServer
from skyrocket.net.connection import Connection
from skyrocket.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode
from skyrocket.testing import sync
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.browser import FITS, TELEPHONE, open_page
from tests.support.pages.console import Visitor, running_console
from tests.support.waiting import WAIT_S_MAX, wait_until

TOPICS, GROUPS = 1_000, 500
ALWAYS = {  # the console's samples, heartbeats, and the broker's registration
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.HEART_BEAT,
    RequestCode.BROKER_HEARTBEAT,
    RequestCode.REGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
}


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


PER_ROW = 4  # requests of a list for one row: two routes at the nameserver, two questions to the broker
PER_PAGE = 2  # and for the page: the names, and who the brokers are
QUIET_LOOKS = 4
REQUESTS = {
    "/topics": PER_PAGE + PER_ROW * ROWS_PER_PAGE,
    "/topics?page=40": PER_PAGE + PER_ROW * ROWS_PER_PAGE,
    "/topics?q=0777": PER_PAGE + PER_ROW,
    "/groups": PER_PAGE + PER_ROW * ROWS_PER_PAGE,
    "/groups?page=20": PER_PAGE + PER_ROW * ROWS_PER_PAGE,
    "/groups?q=077": PER_PAGE + PER_ROW,
    "/topics/topic-0001": 10,
    "/groups/group-001": 10,
    "/messages?topic=topic-0001": 4 + 2 * 4,  # two for each queue
    "/dead-letters": 5,
}


@pytest.mark.parametrize("path", REQUESTS)
def test_a_page_asks_the_cluster_for_its_own_rows_alone(
    path: str, visitor: Visitor, broker: SyncBroker, monkeypatch: pytest.MonkeyPatch
):
    """Of a thousand topics, a page costs the requests of its rows: counted at the broker and at the nameserver."""
    asked = count_requests(broker, monkeypatch)
    page = visitor.read(path)
    assert "Failed." not in page
    assert sum(asked.values()) <= REQUESTS[path], {RequestCode(code).name: count for code, count in asked.items()}
    if "topics?" in path or "groups?" in path:
        assert asked, "the requests were counted"


def count_requests(broker: SyncBroker, monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Count from now on the requests that reach the servers, by code. What goes on without visitors is left out."""
    asked: Counter[int] = Counter()
    assert broker._local._nameserver is not None
    for router in (broker._local.broker.router, broker._local._nameserver.router):

        def handle(
            connection: Connection, commands: list[Command], inner: Callable[..., list[Command]] = router.handle
        ) -> list[Command]:
            asked.update(command.code for command in commands if command.code not in ALWAYS)
            return inner(connection, commands)

        monkeypatch.setattr(router, "handle", handle)
    seen: list[int] = []

    def is_quiet() -> bool:  # for some looks: on a busy machine, a sweep pauses now and then
        seen.append(sum(asked.values()))
        return len(seen) > QUIET_LOOKS and len(set(seen[-QUIET_LOOKS:])) == 1

    wait_until(is_quiet, "the sweep that an earlier visit began has ended", every_s=0.3)
    asked.clear()
    return asked
