"""Where a consumer commits its offsets: at the brokers if the group shares the queues, in a local file if it broadcasts.

A clustering consumer commits in two ways: each pull carries the offset of its queue, and every few seconds `OffsetStore.write`
commits the offsets that have moved since.
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
        self._failing: set[str] = set()  # brokers whose last commit failed: only the first failure is logged

    async def read(self, queue: Queue) -> int | None:
        return await self._offsets.committed_offset(queue)

    async def write(self, offsets: Mapping[Queue, int], *, timeout_ms: int | None = None) -> list[Queue]:
        committed = await asyncio.gather(*(self._write(queue, offset, timeout_ms) for queue, offset in offsets.items()))
        return [queue for queue, is_committed in zip(offsets, committed, strict=True) if is_committed]

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
