"""Delayed and timed messages: every one arrives, and none before its time."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count

from skyrocket.client import ClientError, Consumer, Message, Producer, Received
from tests.soak.clock import Clock
from tests.soak.ledger import Ledger
from tests.soak.messages import QUICK

TOPIC = "soak-delays"
PAUSE_S = 0.1
LEVELS_S = {1: 1.0, 2: 5.0, 3: 10.0}
EARLY_S_MAX = 0.005  # clocks of processes are read in milliseconds


class Delays:
    name = "delays"
    topic = TOPIC

    def __init__(self, nameserver: str, clock: Clock) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self.ledger = Ledger(self.name, clock, is_redelivered=True)
        self._due_s: dict[str, float] = {}  # by the wall clock, as the broker's
        self.early: list[str] = []
        self.latest_s = 0.0
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        consumer = Consumer(self._nameserver, group=f"{TOPIC}-group", start="first", consumer_limits=QUICK, instance="delay")
        consumer.on(TOPIC)(self._handle)
        await self._stack.enter_async_context(consumer)

    async def _handle(self, message: Received) -> None:
        name = message.body.decode()
        late_s = time.time() - self._due_s[name]
        self.latest_s = max(self.latest_s, late_s)
        if late_s < -EARLY_S_MAX:
            self.early.append(f"{name} {-late_s:.3f} s early")
        self.ledger.deliver(name, message)

    async def work(self) -> None:
        chance = self._clock.chance(self.name)
        async with Producer(self._nameserver, retries=0, instance="delay-producer") as producer:
            for serial in count():
                if not self._clock.is_running:
                    return
                name = f"d-{serial}"
                if chance.random() < 0.5:
                    level = chance.choice(list(LEVELS_S))
                    message, delay_s = Message(TOPIC, name.encode(), delay_level=level), LEVELS_S[level]
                else:
                    delay_s = chance.randint(1, 8_000) / 1000
                    message = Message(TOPIC, name.encode(), deliver_in=timedelta(seconds=delay_s))
                self._due_s[name] = time.time() + delay_s
                try:
                    self.ledger.acknowledge(name, await producer.send(message))
                except ClientError as error:
                    self.ledger.fail(error)
                await asyncio.sleep(PAUSE_S)

    def is_settled(self) -> bool:
        return not self.ledger.lost()

    async def close(self) -> None:
        await self._stack.aclose()

    def problems(self) -> list[str]:
        early = [f"delays: {len(self.early)} messages came early: {'; '.join(self.early[:5])}"] if self.early else []
        return early + self.ledger.problems()

    def figures(self) -> dict[str, object]:
        return {**self.ledger.figures(), "latest_s": round(self.latest_s, 3)}
