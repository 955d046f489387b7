"""Finds the rows of a batch that consumers can already see, by their ids, in the queues of their topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.system_names import TOOLS_GROUP
from skyrocket.spark.sink.queue_scan import scan_queue
from skyrocket.spark.sink.row_ids import ID_CHARACTERS, PREFIX_CHARACTERS, row_of

_ID_MARK: Final = b"UNIQ_KEY\x01"
_CONCURRENT_QUEUES_MAX: Final = 16


async def last_offsets(session: Session, queues: list[Queue]) -> dict[Queue, int]:
    """Return one past the last message of each queue."""
    for topic in {queue.topic for queue in queues}:
        await session.route(topic)
    offsets, limit = QueueOffsets(session, TOOLS_GROUP), asyncio.Semaphore(_CONCURRENT_QUEUES_MAX)

    async def fetch(queue: Queue) -> int:
        async with limit:
            return await offsets.max_offset(queue)

    return dict(zip(queues, await asyncio.gather(*map(fetch, queues)), strict=True))


async def find_delivered_rows(session: Session, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
    """Return the (prefix, row) of each message at or after these offsets whose id has one of these prefixes."""
    ends = await last_offsets(session, list(starts))
    wanted = {prefix.encode() for prefix in prefixes}
    found: set[tuple[str, int]] = set()
    limit = asyncio.Semaphore(_CONCURRENT_QUEUES_MAX)

    async def search(queue: Queue) -> None:
        async with limit:
            async for records in scan_queue(session, queue, starts[queue], ends[queue]):
                for record in records:
                    at = record.tail.find(_ID_MARK) + len(_ID_MARK)
                    if at >= len(_ID_MARK) and record.tail[at : at + PREFIX_CHARACTERS] in wanted:
                        row = row_of(record.tail[at : at + ID_CHARACTERS].decode("ascii", "replace"))
                        if row is not None:
                            found.add(row)

    await asyncio.gather(*map(search, starts))
    return found
