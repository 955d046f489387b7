"""A server with some handlers on loopback, a well-behaved client and peers that send bytes as they like; the time is ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skyrocket.net.connection import Connection
from skyrocket.net.dialer import Dialer
from skyrocket.net.limits import NetLimits
from skyrocket.net.router import RefusedError, Router
from skyrocket.net.server import Server
from skyrocket.protocol.command import Command, CommandDecoder
from skyrocket.protocol.header import Header
from skyrocket.protocol.responses import ResponseCode

ECHO, REFUSE, WRONG_HEADER, SILENT, ASK_BACK, SLOW, GROUP, BIG, LONG = 1, 2, 3, 4, 5, 6, 7, 8, 9


class Named(Header, kw_only=True):
    name: str


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


class Scene:
    """A server with some handlers, and what it saw."""

    def __init__(self, limits: NetLimits, tls: ssl.SSLContext | None = None) -> None:
        self.clock = Clock()
        self.groups: list[list[int]] = []
        self.handled: list[int] = []  # the numbers of requests, in the order in which they were handled
        self.connections: list[Connection] = []
        self.router = Router()
        self.release = asyncio.Event()
        self.router.add(ECHO, lambda command, _: command.response(0, body=command.body))
        self.router.add(REFUSE, self.refuse)
        self.router.add(WRONG_HEADER, lambda command, _: command.response(0, command.header(Named)))
        self.router.add(SILENT, lambda command, connection: self.connections.append(connection))
        self.router.add(ASK_BACK, self.ask_back)
        self.router.add(SLOW, self.slow)
        self.router.add(BIG, lambda command, _: command.response(0, body=bytes(int(command.fields["size"]))))
        self.router.add(LONG, self.long)
        self.router.add_group((GROUP,), self.group)
        self.server = Server(self.router, limits, tls, now_ms=self.clock)
        self.dialer = Dialer(limits=NetLimits(scan_ms=5))
        self.port = 0
        self.raws: list[Raw] = []

    def refuse(self, command: Command, connection: Connection) -> None:
        raise RefusedError(ResponseCode.NO_PERMISSION, "Not you.")

    def long(self, command: Command, connection: Connection) -> Command:
        """Take two milliseconds."""
        self.clock.now += 2
        self.handled.append(command.opaque)
        return command.response(0)

    async def ask_back(self, command: Command, connection: Connection) -> Command:
        answer = await connection.request(Command(99, body=b"who are you?"), 1_000)
        return command.response(0, body=answer.body)

    async def slow(self, command: Command, connection: Connection) -> Command:
        await self.release.wait()
        return command.response(0, body=b"at last")

    def group(self, commands: list[Command], connection: Connection) -> None:
        self.groups.append([command.opaque for command in commands])
        for command in commands:
            connection.send_command(command.response(0))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def ask(self, code: int, **given: object) -> Command:
        return await self.dialer.request(self.address, Command(code, **given), 2_000)


@asynccontextmanager
async def scene(limits: NetLimits | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Scene]:
    played = Scene(limits or NetLimits(scan_ms=5), tls)
    played.port = await played.server.listen("127.0.0.1", 0)
    try:
        yield played
    finally:
        for raw in played.raws:
            raw.writer.transport.abort()
        await played.dialer.close()
        await played.server.close()


class Raw:
    """A peer that sends bytes as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder = CommandDecoder()

    @classmethod
    async def to(cls, played: Scene, host: str = "127.0.0.1") -> Raw:
        """Connect from an address of this machine; all of 127.0.0.0/8 are."""
        raw = cls(*await asyncio.open_connection("127.0.0.1", played.port, local_addr=(host, 0)))
        played.raws.append(raw)
        return raw

    async def receive(self, count: int) -> list[Command]:
        commands: list[Command] = []
        while len(commands) < count:
            data = await asyncio.wait_for(self.reader.read(65536), 60)
            assert data, f"closed after {len(commands)} answers"
            commands += self.decoder.feed(data)
        return commands

    async def closed(self) -> bool:
        return await asyncio.wait_for(self.reader.read(), 60) == b""
