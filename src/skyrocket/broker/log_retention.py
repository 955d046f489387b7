"""Rounds of retention beside the event loop: delete expired log files, and refuse writes while the disk is too full.

A thread measures, decides and deletes; the loop only changes tables. `store/retention/retention_job.py` describes the steps.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from skyrocket.broker.settings import BrokerSettings
from skyrocket.store.errors import StoreError
from skyrocket.store.message_store import MessageStore

log = logging.getLogger(__name__)


class LogRetention:
    def __init__(self, store: MessageStore, settings: Callable[[], BrokerSettings], wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._settings = settings
        self._wall_ms = wall_ms
        self._one_at_a_time = asyncio.Lock()
        self._round: asyncio.Task[None] | None = None

    def start_round(self) -> None:
        """Start a round, unless the last one still runs."""
        if self._round is None or self._round.done():
            self._round = asyncio.get_running_loop().create_task(self.run_round())
            self._round.add_done_callback(_report)

    async def run_round(self) -> None:
        """Delete what has expired. Errors are logged; the next round tries again."""
        async with self._one_at_a_time:
            try:
                await self._retain()
            except StoreError as error:
                log.error("Expired log files could not be removed: %s", error)

    async def _retain(self) -> None:
        self._store.config = self._settings().store_config()  # an administrator may have changed how long files are kept
        job = self._store.retention.begin(self._wall_ms(), datetime.now(UTC).astimezone().hour)
        await asyncio.to_thread(job.run)
        plan = self._store.retention.finish(job)
        await asyncio.to_thread(self._store.expired_files.remove_all)
        if plan.remove:
            log.info("Removed the %d oldest log files: %s.", plan.remove, plan.reason)

    async def close(self) -> None:
        """Wait for a round that runs: it holds files of the store."""
        if self._round is not None:
            with suppress(asyncio.CancelledError):
                await self._round


def _report(round_: asyncio.Task[None]) -> None:
    """Log an unexpected failure. The next round tries again."""
    if not round_.cancelled() and round_.exception() is not None:
        log.error("A round of retention failed unexpectedly.", exc_info=round_.exception())
