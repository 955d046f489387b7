"""Where a group's offsets are kept: at the brokers when its members share the queues, in a file when each reads all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from skyrocket.client.consumer.offsets.offset_files import OffsetFile
from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.errors import ClientError
from skyrocket.client.queues import Queue

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    async def read(self, queue: Queue) -> int | None:
        """None: there is none yet."""
        ...

    async def write(self, offsets: Mapping[Queue, int]) -> list[Queue]:
        """Those that are kept now. What failed is logged: it is tried again with the next write."""
        ...


class BrokerOffsets:
    def __init__(self, offsets: QueueOffsets) -> None:
        self._offsets = offsets
        self._failing: set[str] = set()  # brokers that took none the last time: one line in the log is enough

    async def read(self, queue: Queue) -> int | None:
        return await self._offsets.committed(queue)

    async def write(self, offsets: Mapping[Queue, int]) -> list[Queue]:
        done = await asyncio.gather(*(self._write(queue, offset) for queue, offset in offsets.items()))
        return [queue for queue, is_done in zip(offsets, done, strict=True) if is_done]

    async def _write(self, queue: Queue, offset: int) -> bool:
        try:
            await self._offsets.commit(queue, offset)
        except ClientError as error:
            if queue.broker_name not in self._failing:
                self._failing.add(queue.broker_name)
                log.warning("Offset %d of %s could not be committed, and is tried again: %s", offset, queue, error)
            return False
        self._failing.discard(queue.broker_name)
        return True


class FileOffsets:
    """The file is read once; from then on it is ours alone."""

    def __init__(self, file: OffsetFile) -> None:
        self._file = file
        self._known: dict[Queue, int] | None = None

    async def read(self, queue: Queue) -> int | None:
        if self._known is None:
            self._known = await asyncio.to_thread(self._file.read)
        return self._known.get(queue)

    async def write(self, offsets: Mapping[Queue, int]) -> list[Queue]:
        try:
            await asyncio.to_thread(self._file.write, dict(offsets))
        except ClientError as error:
            log.warning("%s", error)
            return []
        self._known = {**(self._known or {}), **offsets}
        return list(offsets)
