"""Saves the progress of timers every timerFlushIntervalMs, and serves it (requests 60 and 61)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from skyrocket.broker.delay.timer_delivery import TimerDelivery
from skyrocket.broker.delay.timer_metrics import TimerMetrics
from skyrocket.net.connection import Connection
from skyrocket.net.router import Router
from skyrocket.protocol.command import Command
from skyrocket.protocol.fastjson.codec import encode
from skyrocket.protocol.requests import RequestCode
from skyrocket.protocol.responses import ResponseCode
from skyrocket.store.errors import StoreError
from skyrocket.store.files import NotOpenedError
from skyrocket.store.timers.timer_index import TimerIndex
from skyrocket.supervised_task import SupervisedTask

log = logging.getLogger(__name__)


class TimerCheckpointing:
    def __init__(
        self,
        delivery: TimerDelivery,
        index: TimerIndex,
        metrics: TimerMetrics,
        wall_ms: Callable[[], int],
        every_ms: Callable[[], int],
        flushed: Callable[[int], Awaitable[None]],
    ) -> None:
        """`flushed` returns once the commit log is on disk up to a position."""
        self._delivery = delivery
        self._index = index
        self._metrics = metrics
        self._wall_ms = wall_ms
        self._every_ms = every_ms
        self._flushed = flushed
        self._task: SupervisedTask | None = None

    def register(self, router: Router) -> None:
        router.add(RequestCode.GET_TIMER_CHECK_POINT, self.checkpoint)
        router.add(RequestCode.GET_TIMER_METRICS, self.counts)

    def checkpoint(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=self._index.current_checkpoint(self._wall_ms()).apache_bytes())

    def counts(self, command: Command, _connection: Connection) -> Command:
        return command.response(ResponseCode.SUCCESS, body=encode(self._metrics.snapshot()))

    # --- in the event loop

    def start(self) -> None:
        self._task = SupervisedTask("checkpoints of timers", self._run)

    async def close(self) -> None:
        """Start no more jobs, and wait for a running one. `TimerDelivery.close` saves the rest."""
        if self._task is not None:
            await self._task.close()
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_ms() / 1000)
            try:
                position = self._delivery.plan_checkpoint(self._wall_ms())
                if position is None:
                    continue
                await self._flushed(position)
            except StoreError as error:
                log.warning("The progress of timers was not saved: %s", error)
                continue
            job = self._delivery.begin_checkpoint()
            if job is None:
                continue
            writing = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, job.run))
            try:
                await asyncio.shield(writing)
            except NotOpenedError as error:
                log.warning("The progress of timers was not saved (%s): the next save does it.", error)
                job.put_back()
            except OSError as error:
                self._delivery.fail_checkpoint(job, error)
            except asyncio.CancelledError:
                await asyncio.gather(writing, return_exceptions=True)
                raise
