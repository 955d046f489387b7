from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from skyrocket.client.session.nameservers import NameserverChoice, ask_address_server


def test_one_is_asked_as_long_as_it_answers():
    choice = NameserverChoice(("a", "b", "c"), start=1)
    assert choice.in_turn() == ["b", "c", "a"]
    assert choice.in_turn() == ["b", "c", "a"]


def test_one_that_failed_is_asked_last():
    choice = NameserverChoice(("a", "b", "c"), start=1)
    choice.failed("b")
    assert choice.in_turn() == ["c", "a", "b"]


def test_a_failure_of_another_changes_nothing():
    choice = NameserverChoice(("a", "b", "c"), start=1)
    choice.failed("a")
    assert choice.in_turn() == ["b", "c", "a"]


def test_an_address_server_that_tells_nothing_takes_nothing_away():
    choice = NameserverChoice(("a",), start=0)
    assert not choice.replaced(())
    assert not choice.replaced(("a",))
    assert choice.replaced(("b", "c"))
    assert sorted(choice.in_turn()) == ["b", "c"]


def test_without_any_there_is_nobody_to_ask():
    assert NameserverChoice((), start=5).in_turn() == []


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/rocketmq/nsaddr" else 404)
        self.end_headers()
        self.wfile.write(b"10.0.0.1:9876;10.0.0.2:9876\n\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_an_address_server_tells_the_nameservers(address_server: str):
    assert await ask_address_server(f"{address_server}/rocketmq/nsaddr") == ("10.0.0.1:9876", "10.0.0.2:9876")


async def test_an_address_server_that_says_no_or_is_not_there_tells_none(address_server: str):
    assert await ask_address_server(f"{address_server}/elsewhere") == ()
    assert await ask_address_server("http://127.0.0.1:1/rocketmq/nsaddr") == ()
    assert await ask_address_server("gopher://names") == ()
