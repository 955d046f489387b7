"""Flushes and checkpoints in a thread beside the event loop.

Sync flush is group commit: appends collect while one flush runs, and the next flush covers all of them. Many waiters cost one
fdatasync. Async flush runs at an interval, once enough pages are dirty. A checkpoint follows at its own interval.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import DiskFullError, StoreClosedError, StoreError, StoreIOError
from skyrocket.store.files import NotOpenedError
from skyrocket.store.message_store import MessageStore
from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)

PAGE_BYTES = 4096


def flush_is_due(config: StoreConfig, dirty_bytes: int, since_last_ms: int) -> bool:
    """Whether an async flush is due: enough pages are dirty, or the last flush is long enough ago."""
    if not dirty_bytes:
        return False
    return dirty_bytes >= config.flush_least_pages * PAGE_BYTES or since_last_ms >= config.flush_thorough_interval_ms


class Flusher:
    """Runs in the event loop that owns the store. Calls `on_confirmed` after each flush that may have confirmed messages.

    A failed sync stops the store's writes and ends the flusher; reads go on. Any other failure also stops the writes, and
    `on_broken` is called: it is unknown what state the store is in.
    """

    def __init__(
        self,
        store: MessageStore,
        now_ms: Callable[[], int],
        on_confirmed: Callable[[], None] = lambda: None,
        on_broken: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._on_confirmed = on_confirmed
        self._on_broken = on_broken
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-flush")
        self._wake = asyncio.Event()
        self._waiting: list[
            tuple[int, int, asyncio.Future[None]]
        ] = []  # heap by position; the ticket keeps futures from being compared
        self._ticket = 0
        self._closing = False
        self._is_postponed = False  # a flush could not begin: the next turn tries again
        self._failure: StoreError | None = None
        self._last_flush_ms = self._last_checkpoint_ms = now_ms()
        self._task = SupervisedTask("flusher", self._run, self._break)

    def on_append(self) -> None:
        """Report an append. With sync flush, a flush starts now, or as soon as the current one ends."""
        if self._store.config.sync_flush:
            self._wake.set()

    async def wait_flushed(self, position: int) -> None:
        """Wait until everything before `position` is on disk.

        Raise StoreError when a flush has failed or the store is closing.
        """
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise StoreClosedError("The store is closing.")
        if position <= self._store.horizon.flushed:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ticket += 1
        heapq.heappush(self._waiting, (position, self._ticket, future))
        self._wake.set()
        await future

    async def close(self) -> None:
        """Flush once more for those that wait, and end the thread. The owner of the store closes the store itself."""
        self._closing = True
        self._wake.set()
        await self._task.wait()
        self._thread.shutdown()

    async def _run(self) -> None:
        try:
            while not self._closing:
                await self._pause()
                await self._turn()
            await self._flush()
        except StoreError as error:
            log.critical("The store takes no more messages until it is opened again: %s", error)
            self._store.stop_writes(str(error))
            self._failure = error
        self._release()

    def _break(self, error: Exception) -> None:
        self._failure = self._store.stop_writes(f"the flusher failed unexpectedly: {error!r}.")
        self._release()
        self._on_broken(error)

    async def _pause(self) -> None:
        config = self._store.config
        interval_ms = min(config.flush_interval_ms, config.checkpoint_interval_ms)
        try:
            async with asyncio.timeout(interval_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _turn(self) -> None:
        asked = self._wake.is_set() or self._is_postponed
        self._wake.clear()
        now_ms = self._now_ms()
        horizon = self._store.horizon
        dirty_bytes = horizon.appended - horizon.flushed
        if asked or flush_is_due(self._store.config, dirty_bytes, now_ms - self._last_flush_ms):
            await self._flush()
            self._last_flush_ms = now_ms
        if now_ms - self._last_checkpoint_ms >= self._store.config.checkpoint_interval_ms:
            await self._checkpoint()
            self._last_checkpoint_ms = now_ms

    async def _flush(self) -> None:
        self._is_postponed = False
        try:
            job = self._store.begin_flush()
        except (OSError, DiskFullError, StoreIOError) as reason:  # nothing was synced, so nothing is in doubt
            log.error("A flush could not begin and is tried again: %s", reason)
            self._is_postponed = True
            return
        if job is None:
            return
        error = await self._in_thread(job.run)
        if isinstance(error, NotOpenedError):
            self._is_postponed = True
            with suppress(DiskFullError, StoreIOError):  # nothing is in doubt: the next turn syncs what could not be opened
                self._store.finish_flush(job, error)
            return
        self._store.finish_flush(job, error)
        failure = failure_of(self._on_confirmed)  # whatever waits for a flush does not affect the next one
        if failure is not None:
            log.error("Not everything that waited for a flush could be woken.", exc_info=failure)
        self._release()

    async def _checkpoint(self) -> None:
        """Write what waits in memory, a part in each turn of the event loop, and then the checkpoint that claims it."""
        try:
            while True:
                if self._store.write_late():
                    break
                await asyncio.sleep(0)  # others have their turn
            job = self._store.begin_checkpoint()
        except (DiskFullError, StoreIOError) as reason:  # it stays in memory, and appends wait for it
            log.error("Queues, index and checksums could not be written and are tried again: %s", reason)
            return
        error = await self._in_thread(job.run)
        with suppress(DiskFullError, StoreIOError):  # the next interval writes the page; a failed sync is raised
            self._store.finish_checkpoint(job, error)

    async def _in_thread(self, run: Callable[[], None]) -> OSError | None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except OSError as error:
            return error
        return None

    def _release(self) -> None:
        """Wake the waiters whose messages are on disk; after a failure, wake all of them."""
        while self._waiting and (self._failure is not None or self._waiting[0][0] <= self._store.horizon.flushed):
            _, _, future = heapq.heappop(self._waiting)
            if future.done():
                continue  # the waiter was cancelled
            if self._failure is None:
                future.set_result(None)
            else:
                future.set_exception(self._failure)
