"""Asks the brokers for their state every few seconds, for the charts of the overview: one request to each broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from skyrocket.client import Admin, ClientError
from skyrocket.client.admin import BrokerInfo, BrokerState
from skyrocket.console.history import BrokerSample, ClusterHistory, ClusterSample
from skyrocket.console.limits import BROKERS_SAMPLED_MAX, PAGE_S_MAX, SAMPLE_EVERY_S


class ClusterSampler:
    def __init__(
        self,
        admin: Admin,
        history: ClusterHistory,
        wall_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._admin = admin
        self._history = history
        self._wall_ms = wall_ms
        self._clock = clock

    async def run(self) -> None:
        """Take samples until the task is cancelled."""
        while True:
            self._history.add(await self.take())
            await asyncio.sleep(SAMPLE_EVERY_S)

    async def take(self) -> ClusterSample:
        """Take one sample. When no nameserver answers, it has the sentence that says so."""
        now_ms = self._wall_ms()
        try:
            async with asyncio.timeout(PAGE_S_MAX):
                brokers = (await self._admin.cluster.brokers())[:BROKERS_SAMPLED_MAX]
                return ClusterSample(now_ms, tuple(await asyncio.gather(*map(self._sample, brokers))))
        except ClientError as error:
            return ClusterSample(now_ms, (), str(error))
        except TimeoutError:
            return ClusterSample(now_ms, (), f"The cluster did not answer within {PAGE_S_MAX:g} s.")

    async def _sample(self, broker: BrokerInfo) -> BrokerSample:
        began = self._clock()
        state: BrokerState = await self._admin.cluster.state(broker)
        return BrokerSample(state, 1000 * (self._clock() - began))
