"""Spark calls a writer in an ordinary thread, without an event loop: each task, and each commit, has one of its own here, and its
own connections. Rows are read in a further thread meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from skyrocket.client.errors import ClientError
from skyrocket.client.session.session import Session
from skyrocket.spark.errors import UnreachableClusterError
from skyrocket.spark.options.sink_options import SinkOptions

T = TypeVar("T")


def run(job: Coroutine[Any, Any, T]) -> T:
    """On uvloop where that is installed: a third less CPU."""
    try:
        import uvloop  # noqa: PLC0415 — an extra
    except ImportError:
        return asyncio.run(job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(job)


async def arrow_batches(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    """Spark's batches as they come. Waiting for the next one does not keep answers from being read."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sink-rows") as thread:
        while (batch := await loop.run_in_executor(thread, next, iterator, None)) is not None:
            if batch.num_rows:
                yield batch


@asynccontextmanager
async def opened_session(options: SinkOptions) -> AsyncIterator[Session]:
    try:
        session = await Session.acquire(options.cluster.client_options())
    except ClientError as error:
        raise UnreachableClusterError(f"Option 'nameserver': the cluster cannot be reached: {error}") from error
    try:
        yield session
    finally:
        await session.release()
