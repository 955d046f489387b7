"""Transactions: committed ones arrive, rolled back ones never do, and the broker asks about those that were left open."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from zlib import crc32

from skyrocket.client import ClientError, Consumer, Message, Outcome, Received, TransactionProducer
from tests.soak.clock import Clock
from tests.soak.ledger import Ledger
from tests.soak.messages import QUICK

TOPIC = "soak-transactions"
PAUSE_S = 0.1


def outcome_of(name: str) -> Outcome:
    """What a transaction decides: it depends on its name only, as if a database knew it."""
    return Outcome.ROLLBACK if crc32(name.encode()) % 3 == 0 else Outcome.COMMIT


def is_left_open(name: str) -> bool:
    """Whether the producer says nothing at first, so that the broker must ask."""
    return crc32(b"open " + name.encode()) % 5 == 0


class Transactions:
    name = "transactions"
    topic = TOPIC

    def __init__(self, nameserver: str, clock: Clock) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self.ledger = Ledger(self.name, clock, is_redelivered=True)
        self.checks = 0
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        consumer = Consumer(self._nameserver, group=f"{TOPIC}-group", start="first", consumer_limits=QUICK, instance="tx-member")
        consumer.on(TOPIC)(self._handle)
        await self._stack.enter_async_context(consumer)
        # It stays until everything has settled, to answer the broker's questions.
        self._producer = TransactionProducer(
            self._nameserver, check=self._check, group="soak-tx", retries=0, instance="tx-producer"
        )
        await self._stack.enter_async_context(self._producer)

    async def _handle(self, message: Received) -> None:
        self.ledger.deliver(message.body.decode(), message)

    async def _check(self, message: Received) -> Outcome:
        self.checks += 1
        return outcome_of(message.body.decode())

    async def work(self) -> None:
        for serial in count():
            if not self._clock.is_running:
                return
            await self._send(f"t-{serial}")
            await asyncio.sleep(PAUSE_S)

    async def _send(self, name: str) -> None:
        if outcome_of(name) is Outcome.ROLLBACK:
            self.ledger.forbidden.add(name)
        execute = Outcome.UNKNOWN if is_left_open(name) else outcome_of(name)

        async def decide(_: Message, __: str) -> Outcome:
            return execute

        try:
            sent = await self._producer.transaction(Message(TOPIC, name.encode(), keys=[name]), decide)
        except ClientError as error:
            self.ledger.fail(error)
            return
        if outcome_of(name) is Outcome.COMMIT:
            self.ledger.acknowledge(name, sent.receipt)

    def is_settled(self) -> bool:
        return not self.ledger.lost()

    async def close(self) -> None:
        await self._stack.aclose()

    def problems(self) -> list[str]:
        return self.ledger.problems()

    def figures(self) -> dict[str, object]:
        return {**self.ledger.figures(), "rolled back": len(self.ledger.forbidden), "checks": self.checks}
