"""Faults: servers are killed at random times, also while they start, and brokers' disks become full or slow for a while."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.soak.clock import Clock
from tests.soak.faulty_disk import FULL, HEALTHY, SLOW
from tests.soak.processes import Servers
from tests.support.processes.skyrocket_process import SkyrocketProcess

KILL_EVERY_S = (6.0, 20.0)
DISK_EVERY_S = (4.0, 12.0)
DISK_LASTS_S = (2.0, 6.0)
KILL_WHILE_STARTING = 0.2


class Faults:
    name = "faults"

    def __init__(self, servers: Servers, clock: Clock) -> None:
        self._servers = servers
        self._clock = clock
        self.counts: Counter[str] = Counter()
        self._problems: list[str] = []

    async def start(self) -> None:
        """Nothing to prepare."""

    async def work(self) -> None:
        await asyncio.gather(self._kill(), self._spoil_disks())

    async def _kill(self) -> None:
        chance = self._clock.chance("kills")
        while self._clock.is_running:
            await self._clock.sleep(chance.uniform(*KILL_EVERY_S))
            if not self._clock.is_running:
                return
            victim: SkyrocketProcess = chance.choice([*self._servers.brokers, *self._servers.brokers, self._servers.names])
            if found := self._servers.ended():
                self._problems += found
                return
            began_s = self._clock.now_s
            await asyncio.to_thread(victim.kill)
            self.counts[f"kills of {victim.name}"] += 1
            if chance.random() < KILL_WHILE_STARTING:
                victim.launch()
                await asyncio.sleep(chance.uniform(0, 1))
                await asyncio.to_thread(victim.kill)
                self.counts["kills while starting"] += 1
            await asyncio.sleep(chance.uniform(0, 1))
            try:
                await asyncio.to_thread(victim.start)  # also on a full disk, for reading
            except AssertionError as error:
                self._problems.append(f"{victim.name} did not start: {error}")
                return
            finally:
                self._clock.disturb("kill", victim.name, began_s)

    async def _spoil_disks(self) -> None:
        chance = self._clock.chance("disks")
        while self._clock.is_running:
            await self._clock.sleep(chance.uniform(*DISK_EVERY_S))
            broker, (mode, kind) = chance.choice(self._servers.brokers), chance.choice(((FULL, "full"), (SLOW, "slow")))
            began_s = self._clock.now_s
            broker.disk.set(mode)
            await self._clock.sleep(chance.uniform(*DISK_LASTS_S))
            broker.disk.set(HEALTHY)
            self.counts[f"{kind} disk"] += 1
            self._clock.disturb(kind, broker.name, began_s)

    def is_settled(self) -> bool:
        return True

    async def close(self) -> None:
        self._servers.heal()

    def problems(self) -> list[str]:
        return [f"faults: {each}" for each in self._problems]

    def figures(self) -> dict[str, object]:
        return dict(self.counts)
