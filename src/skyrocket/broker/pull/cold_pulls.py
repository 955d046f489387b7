"""Pulls of messages that are not in memory: threads read from the disk, and meanwhile other clients are served.

A pull is first tried without waiting for the disk. If bytes are missing, a thread reads them, and the pull is tried again: it may
then need queue entries, checksums or records that lie elsewhere. Each attempt keeps what was read for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from skyrocket.store.cold_reads import ATTEMPTS_MAX, ColdReads, Found, NotInMemoryError, ReadAttempt

THREADS_MAX: Final = 4  # that read from the disk; further pulls wait for one of them


class ColdPulls:
    def __init__(self, reads: ColdReads) -> None:
        self._reads = reads
        self._nothing_read = ReadAttempt()
        self._turns = asyncio.Semaphore(THREADS_MAX)
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="skyrocket-cold-pull")
        self.waiting = 0  # pulls that wait for the disk

    def read_now(self, read: Callable[[], Found], attempt: ReadAttempt | None = None) -> Found:
        """Call `read`, which raises NotInMemoryError when it would wait for the disk."""
        return self._reads.read_now(read, attempt or self._nothing_read)

    async def read(self, read: Callable[[], Found]) -> Found:
        """Return what `read` returns. While the disk works, the loop goes on."""
        self.waiting += 1
        try:
            async with self._turns:
                attempt = ReadAttempt()
                for _ in range(ATTEMPTS_MAX):
                    try:
                        return self.read_now(read, attempt)
                    except NotInMemoryError as missing:
                        await asyncio.get_running_loop().run_in_executor(self._threads, missing.fetch)
                return read()
        finally:
            self.waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False)
