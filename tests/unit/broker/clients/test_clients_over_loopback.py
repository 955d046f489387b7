"""Clients on real connections receive the broker's notifications and requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.router import Router
from skyrocket.net.server import Server
from skyrocket.protocol.bodies import GetConsumerListByGroupResponseBody
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import decode
from skyrocket.protocol.responses import ResponseCode
from tests.unit.broker.parts import Parts, heartbeat


class Client:
    """A consumer that records group notifications and answers requests for its running information."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.told: asyncio.Queue[str] = asyncio.Queue()
        router = Router()
        router.add(40, self._on_changed)
        router.add(307, lambda command, _: command.response(ResponseCode.SUCCESS, body=b'{"properties":{}}'))
        self.dialer = Dialer(router)

    def _on_changed(self, command: Command, _connection: Connection) -> None:
        self.told.put_nowait(command.fields["consumerGroup"])

    async def ask(self, port: int, code: int, body: bytes = b"", **fields: str) -> Command:
        return await self.dialer.request(f"127.0.0.1:{port}", Command(code, fields=fields, body=body))

    async def joins(self, port: int) -> Command:
        return await self.ask(port, 34, _json(heartbeat(self.client_id, "billing")))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def members(client: Client, port: int) -> list[str]:
    answer = await client.ask(port, 38, consumerGroup="billing")
    return decode(answer.body, GetConsumerListByGroupResponseBody).consumer_id_list or []


async def test_members_are_notified_of_each_other_and_answer_over_their_own_connections():
    parts = Parts()
    server = Server(parts.router)
    server.on_closed.append(parts.heartbeats.drop_connection)
    port = await server.listen("127.0.0.1", 0)
    first, second = Client("a"), Client("b")
    try:
        async with asyncio.timeout(60):
            assert (await first.joins(port)).fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
            assert await first.told.get() == "billing"
            await second.joins(port)
            assert [await first.told.get(), await second.told.get()] == ["billing", "billing"]
            assert await members(first, port) == ["a", "b"]
            said = await first.ask(port, 307, consumerGroup="billing", clientId="b", jstackEnable="false")
            assert (said.code, said.body) == (ResponseCode.SUCCESS, b'{"properties":{}}')
            await second.dialer.close()
            assert await first.told.get() == "billing", "the other consumer disconnected"
            assert await members(first, port) == ["a"]
            gone = await first.ask(port, 307, consumerGroup="billing", clientId="b")
            assert gone.code == ResponseCode.SYSTEM_ERROR
    finally:
        await first.dialer.close()
        await second.dialer.close()
        await server.close()
