"""The listener's answers, and what hostile clients cost: their own connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from ipaddress import ip_network

import pytest

from skyrocket.metrics.http_listener import HttpLimits, HttpListener
from skyrocket.metrics.http_request import HEAD_BYTES_MAX, HttpResponse, text_response
from skyrocket.net.errors import NetError
from tests.support.processes.http_client import ask, read_answer
from tests.support.waiting import WAIT_S_MAX, wait_until

LARGE = b"x" * 30_000_000  # more than the kernel's buffers take


async def small() -> HttpResponse:
    return text_response(HTTPStatus.OK, "fine")


async def large() -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, LARGE)


async def broken() -> HttpResponse:
    raise AssertionError("a bug")


@contextmanager
def listening(limits: HttpLimits | None = None) -> Iterator[tuple[HttpListener, int]]:
    listener = HttpListener({"/small": small, "/large": large, "/broken": broken}, limits or HttpLimits())
    port = listener.listen("127.0.0.1", 0)
    try:
        yield listener, port
    finally:
        listener.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S_MAX)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection; waits for it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_pages_and_errors():
    with listening() as (_, port):
        assert ask(port, "/small")[::2] == (200, "fine\n")
        assert ask(port, "/small?x=1").status == 200
        assert ask(port, "/small", "HEAD")[::2] == (200, "")
        assert ask(port, "/small", "DELETE").status == 405
        missing = ask(port, "/other")
        assert missing.status == 404
        assert "/small and /large" in missing.text
        assert len(ask(port, "/large").text) == len(LARGE)


def test_a_page_that_fails_is_an_error_and_the_next_one_is_served(caplog: pytest.LogCaptureFixture):
    with listening() as (_, port):
        assert ask(port, "/broken").status == 500
        assert "a bug" in caplog.text
        assert ask(port, "/small").status == 200


@pytest.mark.parametrize("garbage", [b"\x00" * 4_000, b"\xff\n", b"\x16\x03\x01\x02\x00" + b"\x00" * 2_000, b"GET\r\n\r\n"])
def test_garbage_is_a_bad_request(garbage: bytes):
    with listening() as (_, port), connect(port) as connection:
        connection.sendall(garbage)
        assert read_answer(connection).status == 400


def test_a_head_without_end_is_refused_when_it_is_too_large():
    with listening() as (_, port), connect(port) as connection:
        connection.sendall(b"GET /small HTTP/1.1\r\nX: " + b"a" * HEAD_BYTES_MAX)
        assert read_answer(connection).status == 431


def test_a_client_that_sends_nothing_or_byte_by_byte_is_closed_when_its_time_is_over():
    with listening(HttpLimits(exchange_s=0.1)) as (listener, port), connect(port) as silent, connect(port) as slow:
        slow.sendall(b"GET /sma")
        assert is_closed(silent)
        assert is_closed(slow)
        wait_until(lambda: not listener.exchanges, "the listener forgets them")


def test_a_client_that_does_not_read_is_closed_and_others_are_served_meanwhile():
    with listening(HttpLimits(exchange_s=1.0)) as (listener, port), connect(port) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        wait_until(lambda: len(listener.exchanges) == 1, "it is connected")
        assert ask(port, "/small").status == 200
        wait_until(lambda: not listener.exchanges, "its time is over")


def test_connections_beyond_the_limit_are_closed_at_once():
    with listening(HttpLimits(connections_max=2)) as (listener, port):
        first, second, third = connect(port), connect(port), connect(port)
        assert is_closed(third)
        first.close()
        wait_until(lambda: len(listener.exchanges) == 1, "a place is free")
        assert ask(port, "/small").status == 200
        second.close()
        third.close()


def test_a_port_in_use_is_an_error_with_a_sentence():
    with listening() as (_, port), pytest.raises(NetError, match=f"Cannot listen on 127.0.0.1:{port}: Address already in use"):
        HttpListener({}).listen("127.0.0.1", port)


def test_it_can_be_closed_while_clients_are_connected_and_its_port_is_free_then():
    with listening() as (listener, port), connect(port) as open_one:
        open_one.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        listener.close()
        again = HttpListener({"/small": small})
        assert again.listen("127.0.0.1", port) == port
        assert ask(port, "/small").status == 200
        again.close()


def test_only_the_readers_that_are_named_get_a_page():
    for readers, is_served in ((["10.0.0.0/8", "127.0.0.0/8"], True), (["::1/128", "10.0.0.7/32"], False)):
        listener = HttpListener({"/small": small})
        port = listener.listen("127.0.0.1", 0, [ip_network(text) for text in readers])
        try:
            with connect(port) as client:
                if is_served:
                    assert ask(port, "/small").status == 200
                else:
                    assert is_closed(client)
        finally:
            listener.close()
