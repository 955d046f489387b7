"""A loop that is busy with one connection knows how long the others have waited, and a gate decides what becomes of them."""

from __future__ import annotations

import asyncio
import time
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


class Clocks:
    """The time, and the CPU time of the process."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.cpu_ms = 50
        self.rounds: list[tuple[int, int, int]] = []

    def lateness(self) -> Lateness:
        return Lateness(lambda: self.now_ms, lambda *given: self.rounds.append(given), lambda: self.cpu_ms)

    def pass_ms(self, passed_ms: int, worked_ms: int) -> int:
        self.now_ms += passed_ms
        self.cpu_ms += worked_ms
        return self.now_ms


async def timer_rings() -> None:
    await asyncio.sleep(2 * WATCH_MS / 1000)


async def test_requests_read_after_a_long_task_are_late_by_its_duration():
    clocks = Clocks()
    lateness = clocks.lateness()
    assert lateness.late_ms(1_000) == 0
    assert lateness.late_ms(1_000 + WATCH_MS) == 0
    assert lateness.late_ms(1_000 + WATCH_MS + 7) == 7
    await timer_rings()  # the loop has been free
    assert lateness.late_ms(900_000) == 0
    lateness.close()


async def test_delay_is_work_only_as_far_as_the_process_ran():
    clocks = Clocks()
    lateness = clocks.lateness()
    lateness.late_ms(clocks.now_ms)
    late_ms = lateness.late_ms(clocks.pass_ms(WATCH_MS + 300, WATCH_MS + 300))
    assert (late_ms, lateness.worked_ms(late_ms)) == (300, 300)
    late_ms = lateness.late_ms(clocks.pass_ms(3_000, 2))  # the process was stopped for three seconds
    assert (late_ms, lateness.worked_ms(late_ms)) == (3_300, 302)
    clocks.pass_ms(0, 10_000)  # other threads of the process worked too
    assert lateness.worked_ms(late_ms) == 3_300
    lateness.close()


async def test_end_of_a_round_tells_how_late_it_was():
    clocks = Clocks()
    lateness = clocks.lateness()
    lateness.late_ms(clocks.now_ms)
    clocks.pass_ms(WATCH_MS + 400, WATCH_MS + 250)
    await timer_rings()
    lateness.late_ms(clocks.now_ms)
    clocks.pass_ms(WATCH_MS, 1)
    await timer_rings()
    first_ms = 1_000 + WATCH_MS + 400
    assert clocks.rounds == [(400, 250, first_ms), (0, 0, first_ms + WATCH_MS)]
    lateness.close()


class Gate:
    """Sends may wait for 200 ms, anything else for ever."""

    def __init__(self) -> None:
        self.took: list[tuple[int | None, int]] = []
        self.rounds: list[tuple[int, int, int]] = []
        self.waited: list[int] = []

    def record_round(self, late_ms: int, worked_ms: int, now_ms: int) -> None:
        self.rounds.append((late_ms, worked_ms, now_ms))

    def is_calm(self, waited_ms: int, now_ms: int) -> bool:
        self.waited.append(waited_ms)
        return waited_ms < 200

    def refusal(self, code: int, waited_ms: int, worked_ms: int, now_ms: int) -> str | None:
        assert worked_ms == waited_ms
        return f"{waited_ms} ms" if code == SEND and waited_ms >= 200 else None

    def record_served(self, code: int | None, took_ms: int, now_ms: int) -> None:
        self.took.append((code, took_ms))


class Gated:
    """A server whose clock only work moves. With `sleeps`, real timers ring as if the work took that long."""

    def __init__(self, work_ms: int = WORK_MS, *, sleeps: bool = False) -> None:
        self.now_ms = 0
        self._work_ms = work_ms
        self._sleeps = sleeps
        router = Router()
        router.add(WORK, self.work)
        for code in (SEND, PULL):
            router.add(code, lambda command, _: command.response(0))
        self.server = Server(router, now_ms=lambda: self.now_ms, cpu_ms=lambda: self.now_ms)
        self.gate = self.server.flow_control = Gate()

    def work(self, command: Command, connection: Connection) -> Command:
        self.now_ms += self._work_ms
        if self._sleeps:
            time.sleep(self._work_ms / 1000)
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


async def test_requests_deferred_from_one_large_read_make_no_other_request_late():
    """One read brings twenty requests, which take twenty turns. Requests of another connection wait for one or two of them."""
    gated = Gated(work_ms=25, sleeps=True)
    address = f"127.0.0.1:{await gated.server.listen('127.0.0.1', 0)}"
    large, small = Dialer(), Dialer()
    behind, beside = await large.connection(address), await small.connection(address)
    worked = [behind.request(Command(WORK), 30_000) for _ in range(20)]
    while not all(answer.done() for answer in worked):
        await beside.request(Command(PULL), 30_000)
    assert gated.now_ms == 20 * 25
    assert max(gated.gate.waited) <= 3 * 25
    for dialer in (large, small):
        await dialer.close()
    await gated.server.close()
