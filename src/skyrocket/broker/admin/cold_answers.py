"""Reads of old bytes for an answer to an administrator: a thread waits for the disk, and meanwhile others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from skyrocket.store.cold_reads import Found, NotInMemoryError, RepeatedReads


async def read_cold(reads: RepeatedReads, name: Hashable, read: Callable[[], Found]) -> Found:
    """Return what `read` returns. `name` tells this read from others that are under way."""
    while True:
        try:
            return reads.read(name, read)
        except NotInMemoryError as missing:
            await asyncio.get_running_loop().run_in_executor(None, missing.fetch)
