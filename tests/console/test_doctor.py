"""The page of the doctor: what is wrong, the evidence, what to do, and the way to the page of what it is about."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from skyrocket.client import Message
from skyrocket.client.sync import Admin, Producer
from skyrocket.console.server import ConsoleServer
from skyrocket.testing.threaded import SyncBroker
from tests.support.pages.console import Visitor, running_console, text_of
from tests.support.ports import free_port
from tests.support.waiting import wait_until


def examine(visitor: Visitor, path: str = "/doctor") -> str:
    """Open the page until the examination has ended. Return its markup."""
    wait_until(lambda: "Examined" in (page := visitor.read(path)) and "Being examined" not in page, "the examination ends")
    return visitor.get(path)


@pytest.fixture
def visitor(console: ConsoleServer, broker: SyncBroker) -> Iterator[Visitor]:
    with Admin(broker.nameserver) as admin:
        admin.topics.create("orders", permission="r")
        admin.groups.create("coupons", enabled=False)
    one = Visitor(console.url)
    yield one
    one.close()


def test_a_group_is_examined_by_choice_and_the_finding_leads_to_it(visitor: Visitor):
    page = examine(visitor, "/doctor?group=coupons")
    text = text_of(page)
    assert "Problem group coupons" in text
    assert 'href="/groups/coupons">group coupons</a>' in page
    assert "Evidence" in text
    assert "What to do Allow it again with: skyrocket group create coupons --enabled" in text
    assert "docs/doctor.md#group-disabled" in text
    assert "On the command line: skyrocket doctor --group coupons -n" in text


def test_the_whole_cluster_is_examined_and_the_overview_shows_what_is_urgent(visitor: Visitor):
    page = examine(visitor)
    assert 'href="/topics/orders">topic orders</a>' in page
    assert "1 nameserver, 1 broker" in text_of(page)
    overview = visitor.get("/")
    assert 'href="/doctor"' in overview
    assert "Group 'coupons'" in text_of(overview)
    assert "the doctor," in text_of(overview)
    assert 'href="/doctor?group=coupons"' in visitor.get("/groups/coupons")
    assert 'href="/doctor?topic=orders"' in visitor.get("/topics/orders")


def test_a_topic_that_does_not_exist_is_a_finding(visitor: Visitor):
    assert "topic-missing" in text_of(examine(visitor, "/doctor?topic=ordres"))


def test_names_that_are_markup_or_for_a_shell_stay_text(visitor: Visitor):
    page = visitor.get("/doctor?group=%3Cb%3Ex%3C/b%3E%3B%20rm%20-rf")
    assert "<b>x</b>" not in page
    assert "skyrocket doctor --group '<b>x</b>; rm -rf' -n" in text_of(page)


def test_a_cluster_that_does_not_answer_is_a_sentence():
    with running_console(f"127.0.0.1:{free_port()}") as console:
        visitor = Visitor(console.url)
        assert "Failed. No nameserver answers" in text_of(examine(visitor))
        visitor.close()


def test_other_pages_do_not_wait_for_the_doctor(broker: SyncBroker, console: ConsoleServer):
    """While an examination waits between its two looks, pages are answered, and the page of the doctor itself does not wait."""
    with Producer(broker.nameserver) as producer:
        broker.create_topic("while-examined")
        producer.send(Message("while-examined", b"x"))
    visitor = Visitor(console.url)
    began = time.perf_counter()
    page = visitor.read("/doctor?topic=while-examined")
    seen: list[str] = []
    others = [threading.Thread(target=lambda: seen.append(visitor.read("/topics"))) for _ in range(4)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert "under way" in page or "Being examined" in page
    assert len(seen) == 4
    assert "Examined" not in visitor.read("/doctor?topic=while-examined") or time.perf_counter() - began > 2.0
    assert "Examined" in text_of(examine(visitor, "/doctor?topic=while-examined"))
    visitor.close()
