"""Requests on the VIP port do not wait for a backlog on the other port."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command, decode_command, encode_command
from skyrocket.protocol.frame import FrameSplitter

SLOW, QUICK = 901, 902
PRODUCERS = 20


class Backlog:
    """Producers with a slow request each, all readable in one round of the loop. During the first one a VIP request arrives."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.vip = socket.socket()

    def slow(self, command: Command, _connection: Connection) -> Command:
        if not self.order:
            self.vip.sendall(encode_command(Command(QUICK, opaque=7)))
        self.order.append(SLOW)
        time.sleep(0.006)
        return command.response(0)

    def quick(self, command: Command, _connection: Connection) -> Command:
        self.order.append(QUICK)
        return command.response(0)

    async def play(self, *, is_vip: bool) -> None:
        router = Router()
        router.add(SLOW, self.slow)
        router.add(QUICK, self.quick)
        server = Server(router)
        port = await server.listen("127.0.0.1", 0)
        other_port = await server.listen("127.0.0.1", 0, is_vip=is_vip)
        loop = asyncio.get_running_loop()
        producers = [socket.socket() for _ in range(PRODUCERS)]
        for peer in (*producers, self.vip):
            peer.setblocking(False)
            await loop.sock_connect(peer, ("127.0.0.1", other_port if peer is self.vip else port))
        while len(server.connections) < PRODUCERS + 1:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for peer in producers:
            peer.send(encode_command(Command(SLOW)))
        async with asyncio.timeout(60):
            data = await loop.sock_recv(self.vip, 1_000)
            while len(self.order) < PRODUCERS + 1:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        (frame,) = FrameSplitter().feed(data)
        assert decode_command(frame).opaque == 7
        for peer in (*producers, self.vip):
            peer.close()
        await server.close()


def loop_factories() -> list[Callable[[], asyncio.AbstractEventLoop]]:
    uvloop = pytest.importorskip("uvloop")
    return [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("loop", [0, 1], ids=["asyncio", "uvloop"])
def test_vip_request_is_served_in_the_middle_of_a_backlog(loop: int):
    with asyncio.Runner(loop_factory=loop_factories()[loop]) as runner:
        backlog = Backlog()
        runner.run(backlog.play(is_vip=True))
        assert backlog.order.index(QUICK) <= 3
        assert backlog.order.count(QUICK) == 1
        assert backlog.order.count(SLOW) == PRODUCERS


def test_request_on_another_port_waits_for_the_backlog():
    with asyncio.Runner() as runner:
        backlog = Backlog()
        runner.run(backlog.play(is_vip=False))
        assert backlog.order.index(QUICK) > PRODUCERS // 2


async def test_closed_vip_connections_are_forgotten():
    server = Server(Router())
    port = await server.listen("127.0.0.1", 0, is_vip=True)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not server.connections:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert server._vip
    writer.close()
    while server.connections:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    assert not server._vip
    server.serve_vip()
    await server.close()
    assert await reader.read() == b""
