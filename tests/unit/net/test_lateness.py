"""A loop that is busy with one connection knows how long the others have waited, and a gate decides what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.lateness import WATCH_MS, Lateness
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command
from skyrocket.protocol.responses import ResponseCode

WORK, SEND, PULL = 1, 2, 3
WORK_MS = 300


async def test_requests_read_after_a_long_task_are_late_by_its_duration():
    lateness = Lateness()
    assert lateness.late_ms(1_000) == 0
    assert lateness.late_ms(1_000 + WATCH_MS) == 0
    assert lateness.late_ms(1_000 + WATCH_MS + 7) == 7
    await asyncio.sleep(2 * WATCH_MS / 1000)  # the timer rings: the loop has been free
    assert lateness.late_ms(900_000) == 0
    lateness.close()


class Gate:
    """Sends may wait for 200 ms, anything else for ever."""

    def __init__(self) -> None:
        self.took: list[tuple[int | None, int]] = []

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        return waited_ms < 200

    def refusal(self, code: int, waited_ms: int, now_ms: int) -> str | None:
        return f"{waited_ms} ms" if code == SEND and waited_ms >= 200 else None

    def record_served(self, code: int | None, took_ms: int, now_ms: int) -> None:
        self.took.append((code, took_ms))


class Gated:
    def __init__(self) -> None:
        self.now_ms = 0
        router = Router()
        router.add(WORK, self.work)
        for code in (SEND, PULL):
            router.add(code, lambda command, _: command.response(0))
        self.server = Server(router, now_ms=lambda: self.now_ms)
        self.gate = self.server.flow_control = Gate()

    def work(self, command: Command, connection: Connection) -> Command:
        self.now_ms += WORK_MS
        return command.response(0)


@asynccontextmanager
async def gated_server() -> AsyncIterator[tuple[Gated, Callable[..., Awaitable[list[Command]]]]]:
    """A server, and a function that sends each request over its own connection, so that the server reads them all at once."""
    gated = Gated()
    address = f"127.0.0.1:{await gated.server.listen('127.0.0.1', 0)}"
    dialers = [Dialer() for _ in range(3)]
    connections = [await dialer.connection(address) for dialer in dialers]

    async def ask(*codes: int) -> list[Command]:
        asked = [connection.request(Command(code), 5_000) for connection, code in zip(connections, codes, strict=False)]
        return list(await asyncio.gather(*asked))

    await ask(PULL, PULL, PULL)
    yield gated, ask
    for dialer in dialers:
        await dialer.close()
    await gated.server.close()


async def test_sends_that_waited_too_long_are_refused_and_pulls_are_served():
    async with gated_server() as (gated, ask):
        worked, sent, pulled = await ask(WORK, SEND, PULL)
        assert (worked.code, pulled.code) == (0, 0)
        assert sent.code == ResponseCode.SYSTEM_BUSY
        assert sent.remark in (f"{WORK_MS - WATCH_MS} ms", f"{WORK_MS} ms")
        assert (WORK, WORK_MS) in gated.gate.took, "what took long is told"


async def test_once_the_loop_is_free_again_sends_are_served():
    async with gated_server() as (_, ask):
        await ask(WORK, SEND)
        await asyncio.sleep(2 * WATCH_MS / 1000)
        (sent,) = await ask(SEND)
        assert sent.code == 0
