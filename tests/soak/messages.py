"""Ordinary messages: several producers, and a group of two consumers that gets every message."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count

from skyrocket.client import ClientError, Consumer, ConsumerLimits, Message, Producer, Received
from tests.soak.clock import Clock
from tests.soak.ledger import Ledger

TOPIC = "soak-messages"
PRODUCERS, MEMBERS = 3, 2
SIZES = (0, 50, 50, 500, 500, 4_000, 40_000)
QUICK = ConsumerLimits(commit_ms=1_000, after_failure_ms=500, pull_hold_ms=5_000, rebalance_again_ms=500)


class Messages:
    """Each producer sends one message, or a batch, after another. A message is sent once: no attempt is repeated."""

    name = "messages"
    topic = TOPIC

    def __init__(self, nameserver: str, clock: Clock) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self.ledger = Ledger(self.name, clock)
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        for number in range(MEMBERS):
            member = Consumer(
                self._nameserver, group=f"{TOPIC}-group", start="first", consumer_limits=QUICK, instance=f"member-{number}"
            )
            member.on(TOPIC)(self._handle)
            await self._stack.enter_async_context(member)

    async def _handle(self, message: Received) -> None:
        self.ledger.deliver(message.body.split(b"/")[0].decode(), message)

    async def work(self) -> None:
        await asyncio.gather(*(self._produce(number) for number in range(PRODUCERS)))

    async def _produce(self, number: int) -> None:
        chance = self._clock.chance(f"producer {number}")
        async with Producer(self._nameserver, retries=0, instance=f"producer-{number}") as producer:
            for serial in count():
                if not self._clock.is_running:
                    return
                await self._send(producer, f"p{number}-{serial}", chance.choice(SIZES), chance.choice((1, 1, 1, 8)))
                await asyncio.sleep(0.01)

    async def _send(self, producer: Producer, name: str, size: int, copies: int) -> None:
        names = [name] if copies == 1 else [f"{name}-{each}" for each in range(copies)]
        messages = [Message(TOPIC, f"{each}/".encode() + bytes(size), keys=[each], tag="soak") for each in names]
        try:
            receipt = await (producer.send(messages[0]) if copies == 1 else producer.send_batch(messages))
        except ClientError as error:
            self.ledger.fail(error)
            return
        for each in names:
            self.ledger.acknowledge(each, receipt)

    def is_settled(self) -> bool:
        return not self.ledger.lost()

    async def close(self) -> None:
        await self._stack.aclose()

    def problems(self) -> list[str]:
        return self.ledger.problems()

    def figures(self) -> dict[str, object]:
        return self.ledger.figures()
