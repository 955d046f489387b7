"""Flushes and checkpoints, each in a thread beside the event loop.

    append ─► flush 1 begins ──────────► ends ─► flush 2 begins ─────────► ends
                   append, append, append ┘             append, append ─────┘       group commit: each flush covers
                                                                                    what came during the one before

Sync flush is group commit: appends collect while one flush runs, and the next flush covers all of them. Many waiters cost one
fdatasync. The next flush begins as soon as the one before has ended, before anybody is told of that: so the disk works while
answers are written. Async flush runs at an interval, once enough pages are dirty.

Checkpoints have an interval and a thread of their own: there may be thousands of queue files to sync, and no flush waits for
that.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import perf_counter

from skyrocket.store.config import StoreConfig
from skyrocket.store.errors import DiskFullError, StoreClosedError, StoreError, StoreIOError
from skyrocket.store.files import NotOpenedError
from skyrocket.store.message_store import MessageStore
from skyrocket.store.sync_jobs import FlushJob
from skyrocket.supervised_task import SupervisedTask, failure_of

log = logging.getLogger(__name__)

PAGE_BYTES = 4096
WRITTEN_SHARE = 20  # late writes take at most one part in this many of the time,
CHECKPOINT_MS_MAX = 10_000  # unless checkpoints would come too rarely: recovery reads the log behind the last one


def flush_is_due(config: StoreConfig, dirty_bytes: int, since_last_ms: int) -> bool:
    """Whether an async flush is due: enough pages are dirty, or the last flush is long enough ago."""
    if not dirty_bytes:
        return False
    return dirty_bytes >= config.flush_least_pages * PAGE_BYTES or since_last_ms >= config.flush_thorough_interval_ms


def checkpoint_pause_ms(config: StoreConfig, written_ms: int) -> int:
    """Return how long after a checkpoint the next one may begin, when the late writes of the last one took `written_ms`."""
    return max(config.checkpoint_interval_ms, min(WRITTEN_SHARE * written_ms, CHECKPOINT_MS_MAX))


async def _pause(event: asyncio.Event, most_ms: int) -> None:
    """Wait for an event, but not longer than `most_ms`."""
    try:
        async with asyncio.timeout(most_ms / 1000):
            await event.wait()
    except TimeoutError:
        pass


async def _error_of(done: asyncio.Future[None]) -> OSError | None:
    """Wait for a job in a thread. Return the error with which it ended."""
    try:
        await done
    except OSError as error:
        return error
    return None


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
        self._checkpoint_thread = ThreadPoolExecutor(1, thread_name_prefix="skyrocket-checkpoint")
        self._wake = asyncio.Event()
        self._waiting: list[
            tuple[int, int, asyncio.Future[None]]
        ] = []  # heap by position; the ticket keeps futures from being compared
        self._ticket = 0
        self._closing = False
        self._end = asyncio.Event()  # no checkpoint begins any more
        self._is_postponed = False  # a flush could not begin: the next turn tries again
        self._failure: StoreError | None = None
        self.on_flushed: Callable[[float], None] | None = None  # gets the seconds that each flush took
        self._last_flush_ms = self._last_checkpoint_ms = now_ms()
        self._checkpoint_ms = store.config.checkpoint_interval_ms  # until the next one
        self._flushing, self._checkpointing = asyncio.Lock(), asyncio.Lock()  # held while a job runs in its thread
        self._task = SupervisedTask("flusher", self._run, self._break)
        self._checkpoint_task = SupervisedTask("checkpoints", self._run_checkpoints, self._break)

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

    async def run_alone(self, change: Callable[[], None]) -> None:
        """Call a function that changes the store while no flush and no checkpoint is under way."""
        async with self._checkpointing, self._flushing:
            change()

    async def close(self) -> None:
        """Flush once more for those that wait, and end the threads. The owner of the store closes the store itself."""
        self._closing = True
        self._wake.set()
        self._end.set()
        await self._checkpoint_task.wait()
        await self._task.wait()
        self._thread.shutdown()
        self._checkpoint_thread.shutdown()

    async def _run(self) -> None:
        try:
            while not self._closing:
                await _pause(self._wake, self._store.config.flush_interval_ms)
                await self._turn()
            await self._flush()
        except StoreError as error:
            self._fail(error)
        self._release()

    async def _run_checkpoints(self) -> None:
        try:
            while not self._end.is_set():
                await _pause(self._end, self._store.config.checkpoint_interval_ms)
                began_ms = self._now_ms()
                if not self._end.is_set() and began_ms - self._last_checkpoint_ms >= self._checkpoint_ms:
                    await self._checkpoint()
                    self._last_checkpoint_ms = began_ms
        except StoreError as error:
            self._fail(error)

    def _fail(self, error: StoreError) -> None:
        """A sync has failed: nobody gets an answer from here on, and nothing is written any more."""
        if self._failure is None:
            log.critical("The store takes no more messages until it is opened again: %s", error)
            self._store.stop_writes(str(error))
            self._failure = error
        self._end.set()
        self._release()

    def _break(self, error: Exception) -> None:
        self._failure = self._store.stop_writes(f"the flusher failed unexpectedly: {error!r}.")
        self._end.set()
        self._release()
        self._on_broken(error)

    async def _turn(self) -> None:
        asked = self._wake.is_set() or self._is_postponed
        self._wake.clear()
        now_ms = self._now_ms()
        horizon = self._store.horizon
        dirty_bytes = horizon.appended - horizon.flushed
        if asked or flush_is_due(self._store.config, dirty_bytes, now_ms - self._last_flush_ms):
            await self._flush()
            self._last_flush_ms = now_ms

    async def _flush(self) -> None:
        async with self._flushing:
            await self._flush_while_asked()

    async def _flush_while_asked(self) -> None:
        """Flush, and go on while somebody has asked again: the next flush begins before anybody hears of the one before."""
        running = self._begin_flush()
        while running is not None:
            job, done = running
            began_s = perf_counter()
            error = await _error_of(done)
            if self.on_flushed is not None:
                self.on_flushed(perf_counter() - began_s)
            if isinstance(error, NotOpenedError):
                self._is_postponed = True
                with suppress(DiskFullError, StoreIOError):  # nothing is in doubt: the next turn syncs what could not be opened
                    self._store.finish_flush(job, error)
                return
            self._store.finish_flush(job, error)
            running = None
            try:
                if self._wake.is_set() and not self._closing:
                    self._wake.clear()
                    running = self._begin_flush()
            finally:
                self._confirm()

    def _confirm(self) -> None:
        """Tell everybody who waits for what is on disk now."""
        failure = failure_of(self._on_confirmed)  # whatever waits for a flush does not affect the next one
        if failure is not None:
            log.error("Not everything that waited for a flush could be woken.", exc_info=failure)
        self._release()

    def _begin_flush(self) -> tuple[FlushJob, asyncio.Future[None]] | None:
        """Start a flush in its thread; None when there is nothing to flush, or the flush must wait for the next turn."""
        self._is_postponed = False
        try:
            job = self._store.begin_flush()
        except (OSError, DiskFullError, StoreIOError) as reason:  # nothing was synced, so nothing is in doubt
            log.error("A flush could not begin and is tried again: %s", reason)
            self._is_postponed = True
            return None
        return None if job is None else (job, asyncio.get_running_loop().run_in_executor(self._thread, job.run))

    async def _checkpoint(self) -> None:
        async with self._checkpointing:
            await self._write_checkpoint()

    async def _write_checkpoint(self) -> None:
        """Write what waits in memory, a part in each turn of the event loop, and then the checkpoint that claims it.

        With thousands of queues that takes a while. Then the next one comes later, so that it takes a small part of the time.
        """
        began_ms = self._now_ms()
        try:
            while True:
                if self._store.write_late():
                    break
                await asyncio.sleep(0)  # others have their turn
            job = self._store.begin_checkpoint()
        except (DiskFullError, StoreIOError) as reason:  # it stays in memory, and appends wait for it
            log.error("Queues, index and checksums could not be written and are tried again: %s", reason)
            return
        self._checkpoint_ms = checkpoint_pause_ms(self._store.config, self._now_ms() - began_ms)
        error = await _error_of(asyncio.get_running_loop().run_in_executor(self._checkpoint_thread, job.run))
        with suppress(DiskFullError, StoreIOError):  # the next interval writes the page; a failed sync is raised
            self._store.finish_checkpoint(job, error)

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
