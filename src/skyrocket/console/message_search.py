"""Search a topic by time: its messages in the order in which they were stored, page by page, filtered here.

    queue 0  ──●──●────●──▶ ┐
    queue 1  ─●────●──●───▶ ├─ merged by store time ─▶ filtered ─▶ a page, and where the next one begins
    queue 2  ───●─●──●────▶ ┘

A page looks at a bounded number of messages. It says at how many, and the next page goes on behind them, so a search ends neither
early nor unseen.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import NamedTuple, cast

from skyrocket.client import Admin, Received
from skyrocket.console.limits import MESSAGES_PER_PAGE, SEARCHED_MESSAGES_MAX


class SearchPosition(NamedTuple):
    """Where a page begins: behind so many messages that were stored in this millisecond."""

    since_ms: int
    skip: int = 0


class FoundMessages(NamedTuple):
    messages: list[Received]
    searched: int  # messages that this page looked at
    total: int  # messages from the beginning of this page to the end of the search
    next: SearchPosition | None  # None: everything was searched


class SearchFilter(NamedTuple):
    """What a message has to have. Empty fields allow everything."""

    tag: str = ""
    text: str = ""  # in its body, its keys, its id or the values of its properties

    def allows(self, message: Received) -> bool:
        if self.tag and message.tag != self.tag:
            return False
        if not self.text:
            return True
        wanted = self.text.lower()
        if wanted in message.body.decode("utf-8", "replace").lower():
            return True
        return any(wanted in value.lower() for value in message.properties.values())


class PagePosition:
    """Keeps count of where the next page begins. Pure."""

    def __init__(self, start: SearchPosition) -> None:
        self._last = start

    def passes(self, stored_ms: int) -> None:
        """Note that a message was looked at."""
        last = self._last
        self._last = SearchPosition(stored_ms, last.skip + 1 if stored_ms == last.since_ms else 1)

    @property
    def next(self) -> SearchPosition:
        return self._last


async def search_messages(
    admin: Admin, topic: str, start: SearchPosition, until_ms: int | None, is_wanted: Callable[[Received], bool]
) -> FoundMessages:
    """Return a page of the messages that were stored from `start` on, oldest first, up to `until_ms`."""
    begins, ends = await asyncio.gather(
        admin.offsets.at(topic, start.since_ms), admin.offsets.at(topic, "last" if until_ms is None else until_ms)
    )
    ranges = {queue: (begin, ends[queue]) for queue, begin in begins.items() if begin < ends.get(queue, 0)}
    total = max(0, sum(end - begin for begin, end in ranges.values()) - start.skip)
    position, found, searched, to_skip = PagePosition(start), list[Received](), 0, start.skip
    async with AsyncExitStack() as stack:
        readers = []
        for queue, (begin, end) in ranges.items():
            reader = cast("AsyncGenerator[Received, None]", admin.messages.read_queue(queue, begin, end))
            readers.append(await stack.enter_async_context(aclosing(reader)))
        async for message in _merge(readers):
            if to_skip and message.stored_ms == start.since_ms:
                to_skip -= 1
                continue
            if len(found) >= MESSAGES_PER_PAGE or searched >= SEARCHED_MESSAGES_MAX:
                return FoundMessages(found, searched, total, position.next)
            searched += 1
            position.passes(message.stored_ms)
            if is_wanted(message):
                found.append(message)
    return FoundMessages(found, searched, total, None)


async def _merge(readers: Sequence[AsyncIterator[Received]]) -> AsyncIterator[Received]:
    """Merge queues by store time. Only the first message of each is read ahead."""
    firsts = await asyncio.gather(*(anext(reader, None) for reader in readers))
    heap = [(first.stored_ms, number, first) for number, first in enumerate(firsts) if first is not None]
    heapq.heapify(heap)
    while heap:
        _, number, message = heap[0]
        yield message
        following = await anext(readers[number], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following.stored_ms, number, following))
