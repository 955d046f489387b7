"""Reads of old bytes for an answer to an administrator: a thread waits for the disk, and meanwhile others are served.

await read_cold(reads, name, read)      one read, tried again from its beginning when bytes were missing
await step_cold(reads, query)           a step of a query, which goes on where bytes were missing
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from skyrocket.store.cold_reads import ATTEMPTS_MAX, ColdReads, Found, NotInMemoryError, ReadAttempt, RepeatedReads
from skyrocket.store.read.message_query import MessageQuery


async def read_cold(reads: RepeatedReads, name: Hashable, read: Callable[[], Found]) -> Found:
    """Return what `read` returns. `name` tells this read from others that are under way."""
    while True:
        try:
            return reads.read(name, read)
        except NotInMemoryError as missing:
            await asyncio.get_running_loop().run_in_executor(None, missing.fetch)


async def step_cold(reads: ColdReads, query: MessageQuery) -> bool:
    """Carry out one step of a query; return whether the query is done.

    The entries of a key lie far apart, so a step may miss many of them. As long as each attempt gets the query on, it makes more.
    """
    attempt, tried, cost = ReadAttempt(), 0, query.cost
    while tried < ATTEMPTS_MAX:
        try:
            return reads.read_now(query.step, attempt)
        except NotInMemoryError as missing:
            tried += 1
            if query.cost != cost:  # it has got on, and needs no more what was read before
                attempt, tried, cost = ReadAttempt(), 1, query.cost
            await asyncio.get_running_loop().run_in_executor(None, attempt.fetch, missing)
    return query.step()
