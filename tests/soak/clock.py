"""How long a run lasts, and when servers were disturbed."""

from __future__ import annotations

import asyncio
import random
import time
from typing import NamedTuple


class Disturbance(NamedTuple):
    """A server was killed, or its disk was full or slow."""

    kind: str  # "kill", "full", "slow"
    server: str
    began_s: float
    ended_s: float


class Clock:
    """The time of a run: seconds since it began. Workloads go on while `is_running`."""

    def __init__(self, lasts_s: float, seed: int) -> None:
        self._began_s = time.monotonic()
        self._lasts_s = lasts_s
        self._seed = seed
        self.disturbances: list[Disturbance] = []

    def restart(self) -> None:
        """Begin now: starting the servers does not count."""
        self._began_s = time.monotonic()

    def since_began_s(self, monotonic_s: float) -> float:
        """Convert the monotonic time, which all processes share."""
        return monotonic_s - self._began_s

    def is_disturbed(self, kind: str, server: str, at_s: float, before_s: float) -> bool:
        """Whether the server was disturbed in this way within a span that ends at `at_s`."""
        return any(
            each.kind == kind and each.server == server and each.began_s <= at_s and each.ended_s >= at_s - before_s
            for each in self.disturbances
        )

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def is_running(self) -> bool:
        return self.now_s < self._lasts_s

    def chance(self, name: str) -> random.Random:
        """Return the source of random choices of one workload: others do not change it."""
        return random.Random(f"{self._seed}/{name}")

    async def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than the run lasts."""
        await asyncio.sleep(max(0.0, min(seconds, self._lasts_s - self.now_s)))

    def disturb(self, kind: str, server: str, began_s: float) -> None:
        self.disturbances.append(Disturbance(kind, server, began_s, self.now_s))
