"""Where a consumer commits its offsets: at the brokers if the group shares the queues, in a local file if it broadcasts.

A clustering consumer commits in two ways: every few seconds `OffsetStore.write` commits the offsets that have moved, and each
pull carries the offset of its queue once the queue has one at the broker.

The first commit of a group for a topic travels alone. Apache's broker makes the table of a group and topic when an offset comes
that has none, and two threads that do so at the same time lose the offset of one of them, although both are acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from skyrocket.client.consumer.offsets.offset_file import OffsetFile
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Reads and writes the committed offsets of a group."""

    async def read(self, queue: Queue) -> int | None:
        """Fetch the committed offset of a queue. None: the group has none yet."""
        ...

    async def write(self, offsets: Mapping[Queue, int], *, timeout_ms: int | None = None) -> list[Queue]:
        """Commit offsets. Returns the queues that were committed; failures are logged, and the next write tries again.

        A broker has `timeout_ms` to answer; None: as long as for any request.
        """
        ...


class BrokerOffsetStore:
    """Commits to the brokers, for a group whose members share the queues."""

    def __init__(self, offsets: QueueOffsets) -> None:
        self._offsets = offsets
        self._begun: set[tuple[str, str]] = set()  # brokers and topics that have an offset of the group
        self._failing: set[str] = set()  # brokers whose last commit failed: only the first failure is logged

    async def read(self, queue: Queue) -> int | None:
        return await self._offsets.committed_offset(queue)

    async def write(self, offsets: Mapping[Queue, int], *, timeout_ms: int | None = None) -> list[Queue]:
        by_topic: dict[tuple[str, str], list[Queue]] = {}
        for queue in offsets:
            by_topic.setdefault((queue.broker_name, queue.topic), []).append(queue)
        written = await asyncio.gather(*(self._write_topic(queues, offsets, timeout_ms) for queues in by_topic.values()))
        return [queue for queues in written for queue in queues]

    async def _write_topic(self, queues: list[Queue], offsets: Mapping[Queue, int], timeout_ms: int | None) -> list[Queue]:
        """Commit offsets of one topic at one broker, the first one alone. Return the queues that were committed."""
        first, key = queues[0], (queues[0].broker_name, queues[0].topic)
        alone = [] if key in self._begun else [first]
        committed = [queue for queue in alone if await self._write(queue, offsets[queue], timeout_ms)]
        if committed:
            self._begun.add(key)
        others = queues[len(alone) :]
        flags = await asyncio.gather(*(self._write(queue, offsets[queue], timeout_ms) for queue in others))
        return committed + [queue for queue, flag in zip(others, flags, strict=True) if flag]

    async def _write(self, queue: Queue, offset: int, timeout_ms: int | None) -> bool:
        try:
            await self._offsets.commit(queue, offset, timeout_ms=timeout_ms)
        except ClientError as error:
            if queue.broker_name not in self._failing:
                self._failing.add(queue.broker_name)
                log.warning("Offset %d of %s could not be committed; the next commit tries again: %s", offset, queue, error)
            return False
        self._failing.discard(queue.broker_name)
        return True


class FileOffsetStore:
    """Commits to a local file, for a broadcasting consumer. Reads the file once, as no other process writes it."""

    def __init__(self, file: OffsetFile) -> None:
        self._file = file
        self._offsets: dict[Queue, int] | None = None

    async def read(self, queue: Queue) -> int | None:
        if self._offsets is None:
            self._offsets = await asyncio.to_thread(self._file.read)
        return self._offsets.get(queue)

    async def write(self, offsets: Mapping[Queue, int], *, timeout_ms: int | None = None) -> list[Queue]:  # noqa: ARG002
        try:
            await asyncio.to_thread(self._file.write, dict(offsets))
        except ClientError as error:
            log.warning("%s", error)
            return []
        self._offsets = {**(self._offsets or {}), **offsets}
        return list(offsets)
