"""Hostile clients: garbage, unfinished frames, floods, and clients that ask for much and read nothing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from skyrocket.protocol.command import ONEWAY_FLAG, Command, encode_command
from skyrocket.protocol.requests import RequestCode
from tests.soak.clock import Clock
from tests.soak.messages import TOPIC
from tests.support.processes.load import pull_request

STAY_S = 5.0
CROWD = 100
AT_ONCE = 6

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter, random.Random], Awaitable[None]]


async def send_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
    writer.write(chance.randbytes(chance.randint(1, 100_000)))
    await reader.read()


async def leave_a_frame_unfinished(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
    frame = encode_command(Command(RequestCode.HEART_BEAT, body=bytes(1_000_000)))
    writer.write(frame[: chance.randint(1, len(frame) - 1)])
    await asyncio.sleep(STAY_S)


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
    code = chance.choice((9_999, RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.HEART_BEAT, RequestCode.END_TRANSACTION))
    writer.write(encode_command(Command(code, flag=ONEWAY_FLAG, body=chance.randbytes(50))) * 2_000)
    await writer.drain()


async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
    pulls = (pull_request(TOPIC, number, opaque=number, queue_id=number % 4) for number in range(500))
    writer.write(b"".join(map(encode_command, pulls)))
    await asyncio.sleep(STAY_S)


async def mutate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chance: random.Random) -> None:
    """Send sound requests with some bytes changed."""
    for code in chance.sample(list(RequestCode), 30):
        frame = bytearray(encode_command(Command(code, fields={"topic": TOPIC, "group": "x", "queueId": "0"}, body=b"{}")))
        for _ in range(chance.randint(0, 3)):
            frame[chance.randrange(8, len(frame))] = chance.randrange(256)
        if code not in DANGEROUS:
            writer.write(bytes(frame))
    await writer.drain()
    with suppress(TimeoutError):
        await asyncio.wait_for(reader.read(), 1)


# Requests of an administrator that would change what the other workloads rely on.
DANGEROUS = frozenset(
    code
    for code in RequestCode
    if any(word in code.name for word in ("DELETE", "UPDATE", "RESET", "WIPE", "CLEAN", "REGISTER", "INVOKE", "SET", "SWITCH"))
)
ACTS: tuple[Act, ...] = (send_garbage, leave_a_frame_unfinished, flood, read_nothing, mutate)


class Strangers:
    name = "strangers"

    def __init__(self, addresses: list[str], clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock
        self.acts: Counter[str] = Counter()

    async def start(self) -> None:
        """Nothing to prepare."""

    async def work(self) -> None:
        await asyncio.gather(self._crowd(), *(self._act(number) for number in range(AT_ONCE)))

    async def _act(self, number: int) -> None:
        chance = self._clock.chance(f"stranger {number}")
        while self._clock.is_running:
            act = chance.choice(ACTS)
            with suppress(OSError, TimeoutError):
                reader, writer = await self._connect(chance)
                try:
                    await asyncio.wait_for(act(reader, writer, chance), STAY_S + 1)
                    self.acts[act.__name__] += 1
                finally:
                    writer.transport.abort()
            await self._clock.sleep(chance.uniform(0, 1))

    async def _crowd(self) -> None:
        """Many connections that say nothing, opened and left at once."""
        chance = self._clock.chance("crowd")
        while self._clock.is_running:
            opened = await asyncio.gather(*(self._connect(chance) for _ in range(CROWD)), return_exceptions=True)
            await self._clock.sleep(3)
            for each in opened:
                if not isinstance(each, BaseException):
                    each[1].transport.abort()
            self.acts["crowd"] += 1
            await self._clock.sleep(3)

    async def _connect(self, chance: random.Random) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = chance.choice(self._addresses).rpartition(":")
        return await asyncio.open_connection(host, int(port))

    def is_settled(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is left open."""

    def problems(self) -> list[str]:
        return []

    def figures(self) -> dict[str, object]:
        return dict(self.acts)
