"""The answer to a client that waits for it goes to the socket at once; what the socket does not take, the transport writes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from tests.support.brokers.send_parts import KeptWrites, call_now


class OverSocket(KeptWrites):
    """A transport of a real socket. It keeps what it is asked to write; `left` of it waits for the peer."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__()
        self._end = end
        self.left = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._end if name == "socket" else super().get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self.left


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def connected(end: socket.socket) -> tuple[Connection, OverSocket]:
    server = Server(Router(), NetLimits(), now_ms=lambda: 77, call_soon=call_now)
    connection, transport = Connection(server), OverSocket(end)
    connection.connection_made(transport)
    return connection, transport


def read_all(end: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            data += end.recv(1 << 20)
        except BlockingIOError:
            return data


def test_a_single_answer_goes_to_the_socket_and_counts_as_written(ends: tuple[socket.socket, socket.socket]):
    connection, transport = connected(ends[0])
    connection.send(b"answer")
    assert (read_all(ends[1]), transport.written) == (b"answer", b"")
    assert (connection.bytes_written, connection.last_write_ms) == (6, 77)


def test_an_answer_waits_behind_bytes_that_wait_in_the_transport(ends: tuple[socket.socket, socket.socket]):
    connection, transport = connected(ends[0])
    transport.left = 1
    connection.send(b"answer")
    assert (read_all(ends[1]), transport.written) == (b"", b"answer")


def test_what_the_socket_does_not_take_is_for_the_transport_once(ends: tuple[socket.socket, socket.socket]):
    connection, transport = connected(ends[0])
    answer = bytes(range(256)) * 4096
    connection.send(answer)
    taken = read_all(ends[1])
    assert 0 < len(taken) < len(answer)
    assert taken + transport.written == answer
    assert connection.bytes_written == len(answer)


def test_an_error_of_the_socket_is_left_to_the_transport(ends: tuple[socket.socket, socket.socket]):
    connection, transport = connected(ends[0])
    ends[1].close()
    connection.send(b"answer")
    assert transport.written == b"answer"
