"""`LocalBroker` with its event loop in a background thread, for tests in any event loop, or in none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from skyrocket.client.received import Received
from skyrocket.client.sync import BackgroundLoop
from skyrocket.testing.clock import Clock
from skyrocket.testing.local_broker import LocalBroker

T = TypeVar("T")


class _BackgroundBroker:
    """Start and close a `LocalBroker` in a background thread."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, folder: Path | str | None = None) -> None:
        self._local = LocalBroker(settings, folder=folder)
        self._loop: BackgroundLoop | None = None

    def start(self) -> None:
        if self._loop is not None:
            return
        self._loop = BackgroundLoop()
        try:
            self._run(self._local.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._loop is not None:
            self._run(self._local.close())
            self._loop.stop()
            self._loop = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def nameserver(self) -> str:
        """The nameserver's address, host:port, for clients."""
        return self._local.nameserver

    @property
    def address(self) -> str:
        """The broker's address, host:port."""
        return self._local.address

    @property
    def clock(self) -> Clock:
        return self._local.clock

    def _run(self, job: Coroutine[Any, Any, T]) -> T:
        return self._background(job).submit(job).result()

    async def _run_async(self, job: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._background(job).submit(job))

    def _background(self, job: Coroutine[Any, Any, Any]) -> BackgroundLoop:
        if self._loop is None:
            job.close()
            raise RuntimeError("The broker was not started: use `with`, or call start().")
        return self._loop


class ThreadedBroker(_BackgroundBroker):
    """`LocalBroker` for tests in any event loop: `with ThreadedBroker() as broker`, then `await broker.messages("orders")`."""

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        await self._run_async(self._local.create_topic(topic, queues))

    async def messages(self, topic: str, *, at_least: int = 0, timeout_s: float = 10.0) -> list[Received]:
        return await self._run_async(self._local.messages(topic, at_least=at_least, timeout_s=timeout_s))

    async def advance(self, duration: timedelta | float) -> None:
        await self._run_async(self._local.advance(duration))


class SyncBroker(_BackgroundBroker):
    """`LocalBroker` for tests without an event loop: `with SyncBroker() as broker`, then `broker.messages("orders")`."""

    def create_topic(self, topic: str, queues: int = 4) -> None:
        self._run(self._local.create_topic(topic, queues))

    def messages(self, topic: str, *, at_least: int = 0, timeout_s: float = 10.0) -> list[Received]:
        return self._run(self._local.messages(topic, at_least=at_least, timeout_s=timeout_s))

    def advance(self, duration: timedelta | float) -> None:
        self._run(self._local.advance(duration))
