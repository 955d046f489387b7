from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from skyrocket.client.session.nameservers import NameserverRotation, fetch_nameservers


def test_current_nameserver_stays_first_while_it_answers():
    rotation = NameserverRotation(("a", "b", "c"), start=1)
    assert rotation.in_turn() == ["b", "c", "a"]
    assert rotation.in_turn() == ["b", "c", "a"]


def test_failed_nameserver_comes_last():
    rotation = NameserverRotation(("a", "b", "c"), start=1)
    rotation.mark_failed("b")
    assert rotation.in_turn() == ["c", "a", "b"]


def test_failure_of_another_nameserver_changes_nothing():
    rotation = NameserverRotation(("a", "b", "c"), start=1)
    rotation.mark_failed("a")
    assert rotation.in_turn() == ["b", "c", "a"]


def test_empty_list_of_an_address_server_changes_nothing():
    rotation = NameserverRotation(("a",), start=0)
    assert not rotation.replace(())
    assert not rotation.replace(("a",))
    assert rotation.replace(("b", "c"))
    assert sorted(rotation.in_turn()) == ["b", "c"]


def test_rotation_without_addresses_is_empty():
    assert NameserverRotation((), start=5).in_turn() == []


class AddressServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/rocketmq/nsaddr" else 404)
        self.end_headers()
        self.wfile.write(b"10.0.0.1:9876;10.0.0.2:9876\n\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address_server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), AddressServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_fetch_nameservers_from_an_address_server(address_server: str):
    assert await fetch_nameservers(f"{address_server}/rocketmq/nsaddr") == ("10.0.0.1:9876", "10.0.0.2:9876")


async def test_fetch_nameservers_returns_none_on_errors(address_server: str):
    assert await fetch_nameservers(f"{address_server}/elsewhere") == ()
    assert await fetch_nameservers("http://127.0.0.1:1/rocketmq/nsaddr") == ()
    assert await fetch_nameservers("gopher://names") == ()
