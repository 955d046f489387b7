"""The same broker with an event loop in a thread of its own: for tests in any loop, or in none."""

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


class _Threaded:
    """Life, and what needs no waiting for."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, folder: Path | str | None = None) -> None:
        self._local = LocalBroker(settings, folder=folder)
        self._loop: BackgroundLoop | None = None

    def start(self) -> None:
        if self._loop is not None:
            return
        self._loop = BackgroundLoop()
        try:
            self._wait(self._local.start())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._loop is not None:
            self._wait(self._local.close())
            self._loop.stop()
            self._loop = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def nameserver(self) -> str:
        """What clients are given: host:port."""
        return self._local.nameserver

    @property
    def address(self) -> str:
        """The broker's own."""
        return self._local.address

    @property
    def clock(self) -> Clock:
        return self._local.clock

    def _wait(self, job: Coroutine[Any, Any, T]) -> T:
        return self._background(job).submit(job).result()

    async def _awaited(self, job: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._background(job).submit(job))

    def _background(self, job: Coroutine[Any, Any, Any]) -> BackgroundLoop:
        if self._loop is None:
            job.close()
            raise RuntimeError("The broker was not started: use `with`.")
        return self._loop


class ThreadedBroker(_Threaded):
    """`LocalBroker` for tests in any event loop: `with ThreadedBroker() as broker`, then `await broker.messages("orders")`."""

    async def create_topic(self, topic: str, queues: int = 4) -> None:
        await self._awaited(self._local.create_topic(topic, queues))

    async def messages(self, topic: str, *, at_least: int = 0, timeout_s: float = 10.0) -> list[Received]:
        return await self._awaited(self._local.messages(topic, at_least=at_least, timeout_s=timeout_s))

    async def advance(self, duration: timedelta | float) -> None:
        await self._awaited(self._local.advance(duration))


class SyncBroker(_Threaded):
    """The same for tests without one."""

    def create_topic(self, topic: str, queues: int = 4) -> None:
        self._wait(self._local.create_topic(topic, queues))

    def messages(self, topic: str, *, at_least: int = 0, timeout_s: float = 10.0) -> list[Received]:
        return self._wait(self._local.messages(topic, at_least=at_least, timeout_s=timeout_s))

    def advance(self, duration: timedelta | float) -> None:
        self._wait(self._local.advance(duration))
