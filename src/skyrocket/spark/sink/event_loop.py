"""Runs the sink's asynchronous code. Spark calls a writer in a thread without an event loop.

So each task and each commit gets its own event loop, with its own connections. A second thread reads Spark's rows meanwhile.
"""

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
    """Run a coroutine in a new event loop: uvloop's where it is installed, which uses a third less CPU."""
    try:
        import uvloop  # noqa: PLC0415 — an extra
    except ImportError:
        return asyncio.run(job)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(job)


async def arrow_batches(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    """Yield Spark's batches as they arrive. The event loop keeps reading responses while it waits for the next batch."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sink-rows") as thread:
        while (batch := await loop.run_in_executor(thread, next, iterator, None)) is not None:
            if batch.num_rows:
                yield batch


@asynccontextmanager
async def open_session(options: SinkOptions) -> AsyncIterator[Session]:
    try:
        session = await Session.acquire(options.cluster.client_options())
    except ClientError as error:
        raise UnreachableClusterError(f"The cluster of option '{options.cluster.named_by}' cannot be reached: {error}") from error
    try:
        yield session
    finally:
        await session.release()
