"""The connections between nodes of a group: one that has fallen silent is replaced."""

from __future__ import annotations

import asyncio

from skyrocket.broker.dledger.peer_links import PeerLinks
from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command
from skyrocket.protocol.requests import RequestCode

TIMEOUT_MS = 100
VOTE, BEAT = RequestCode.DLEDGER_VOTE, RequestCode.DLEDGER_HEART_BEAT


async def test_a_connection_that_has_fallen_silent_is_opened_anew_and_one_that_answers_is_kept():
    served_by: list[Connection] = []
    answered: asyncio.Queue[int] = asyncio.Queue()
    unreachable = asyncio.Event()
    router = Router()
    server = Server(router)

    def answer(command: Command, connection: Connection) -> Command:
        served_by.append(connection)
        return command.response(0)

    router.add(VOTE, lambda *_: None)
    router.add(BEAT, answer)
    port = await server.listen("127.0.0.1", 0)
    dialer = Dialer()
    links = PeerLinks(
        {"n1": f"127.0.0.1:{port}"},
        dialer,
        lambda peer, number, code, command: answered.put_nowait(number),
        lambda peer: unreachable.set(),
    )

    async def ask(number: int) -> None:
        links.send("n1", number, Command(BEAT), 60_000)
        async with asyncio.timeout(60):
            assert await answered.get() == number

    try:
        await ask(1)
        await ask(2)
        assert served_by[0] is served_by[1]
        links.send("n1", 3, Command(VOTE), TIMEOUT_MS)
        links.send("n1", 4, Command(VOTE), TIMEOUT_MS * 100)  # is given up with the connection
        async with asyncio.timeout(60):
            await unreachable.wait()
        await ask(5)
        assert served_by[2] is not served_by[0]
        assert answered.empty()
    finally:
        links.close()
        await dialer.close()
        await server.close()
