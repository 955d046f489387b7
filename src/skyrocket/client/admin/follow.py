"""Follow the queues of a topic: their messages as they arrive, without a group and without committed offsets.

    one task a queue: long poll ─▶ bounded buffer ─▶ the caller
    one task:         looks for queues that the topic got meanwhile

A broker that does not answer is asked again. Any other error ends the iteration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from skyrocket.client.errors import DisconnectedError, NoNameserverError, NoRouteError, TimedOutError, UnreachableError
from skyrocket.client.queues import Queue
from skyrocket.client.received import Received

log = logging.getLogger(__name__)

BUFFERED_MESSAGES_MAX: Final = 1_000
RETRY_S: Final = 1.0  # after an error
EMPTY_PAUSE_S: Final = 0.05  # after a pull that brought nothing: a broker may answer at once instead of holding it
NEW_QUEUES_S: Final = 10.0  # between two looks at the route
_PASSING: Final = (UnreachableError, DisconnectedError, TimedOutError, NoNameserverError, NoRouteError)


class FollowStep(NamedTuple):
    """What one pull of a queue brought."""

    messages: list[Received]
    next_offset: int


Pull = Callable[[Queue, int], Awaitable[FollowStep]]
"""Pulls a queue at an offset. Waits for a message if there is none."""


class TopicFollower:
    """Follows queues from the given offsets on. A queue that `discover` names later is followed from its first message on."""

    def __init__(self, pull: Pull, discover: Callable[[], Awaitable[Mapping[Queue, int]]] | None) -> None:
        self._pull = pull
        self._discover = discover
        self._arrived: asyncio.Queue[Received] = asyncio.Queue(BUFFERED_MESSAGES_MAX)
        self._tasks: dict[Queue | None, asyncio.Task[None]] = {}  # None: the one that looks for new queues

    async def messages(self, begins: Mapping[Queue, int]) -> AsyncIterator[Received]:
        """Yield messages until the caller stops."""
        try:
            self._follow(begins)
            if self._discover is not None:
                self._tasks[None] = asyncio.create_task(self._look_for_queues(self._discover))
            while True:
                yield await self._next()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _next(self) -> Received:
        """Return the next message. Raise the error of a task that has ended."""
        if not self._arrived.empty():
            return self._arrived.get_nowait()
        getting = asyncio.ensure_future(self._arrived.get())
        try:
            await asyncio.wait({getting, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
        for task in self._tasks.values():
            if task.done():
                task.result()
        raise AssertionError("a task that follows a queue has ended without an error")

    def _follow(self, begins: Mapping[Queue, int]) -> None:
        for queue, begin in begins.items():
            if queue not in self._tasks:
                self._tasks[queue] = asyncio.create_task(self._follow_queue(queue, begin))

    async def _follow_queue(self, queue: Queue, offset: int) -> None:
        while True:
            try:
                step = await self._pull(queue, offset)
            except _PASSING as error:
                log.warning("%s cannot be read, and is tried again: %s", queue, error)
                await asyncio.sleep(RETRY_S)
                continue
            for message in step.messages:
                await self._arrived.put(message)
            if step.next_offset == offset:
                await asyncio.sleep(EMPTY_PAUSE_S)
            offset = step.next_offset

    async def _look_for_queues(self, discover: Callable[[], Awaitable[Mapping[Queue, int]]]) -> None:
        while True:
            await asyncio.sleep(NEW_QUEUES_S)
            try:
                self._follow(await discover())
            except _PASSING as error:
                log.warning("The route cannot be looked up, and is tried again: %s", error)
