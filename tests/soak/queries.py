"""Queries: an acknowledged message is found by its key, its unique id and its offset id."""

from __future__ import annotations

import asyncio
from collections import Counter

from skyrocket.client import Admin, ClientError, NotFoundError, Received
from tests.soak.clock import Clock
from tests.soak.ledger import Ledger
from tests.soak.processes import wait_for_brokers

PAUSE_S = 0.1
INDEXED_S = 2.0  # an acknowledged message is in the index after so long, and then always
ATTEMPTS = 5


class Queries:
    name = "queries"

    def __init__(self, nameserver: str, clock: Clock, ledger: Ledger, topic: str) -> None:
        self._nameserver = nameserver
        self._clock = clock
        self._ledger = ledger
        self._topic = topic
        self.answers: Counter[str] = Counter()
        self.missed: list[str] = []

    async def start(self) -> None:
        """Nothing to prepare."""

    async def work(self) -> None:
        chance = self._clock.chance(self.name)
        async with Admin(self._nameserver) as admin:
            while self._clock.is_running:
                await asyncio.sleep(PAUSE_S)
                old = [name for name, at_s in self._ledger.acknowledged.items() if at_s < self._clock.now_s - INDEXED_S]
                if old:
                    await self._find(admin, chance.choice(old), chance.choice(("key", "unique id", "offset id")))

    async def _find(self, admin: Admin, name: str, by: str) -> None:
        """Look a message up. One that is not found is looked up again: a server may just have come back."""
        for attempt in range(ATTEMPTS):
            try:
                await wait_for_brokers(admin)
                found = await self._ask(admin, name, by)
            except NotFoundError:
                found = []
            except ClientError as error:
                self.answers[type(error).__name__] += 1
                return
            if any(message.body.startswith(f"{name}/".encode()) for message in found):
                self.answers[by] += 1
                return
            self.answers["asked again"] += 1
            await asyncio.sleep(attempt + 1)
        self.missed.append(f"{name} by {by}")

    async def _ask(self, admin: Admin, name: str, by: str) -> list[Received]:
        receipt = self._ledger.receipts[name]
        if by == "key" or "," in receipt.message_id:  # of a batch, the ids are those of all its messages
            return await admin.messages.by_key(self._topic, name)
        if by == "unique id":
            return await admin.messages.by_unique_id(self._topic, receipt.message_id)
        return [await admin.messages.by_offset_id(receipt.offset_id)]

    def is_settled(self) -> bool:
        return True

    async def close(self) -> None:
        """Nothing is left open."""

    def problems(self) -> list[str]:
        return [f"queries: {len(self.missed)} acknowledged messages were not found: {self.missed[:5]}"] if self.missed else []

    def figures(self) -> dict[str, object]:
        return dict(self.answers)
