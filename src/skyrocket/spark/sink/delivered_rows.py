"""Which rows of a batch consumers can see already: looked for in the queues that they go to, by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from skyrocket.client.consumer.offsets.queue_offsets import QueueOffsets
from skyrocket.client.queues import Queue
from skyrocket.client.session.session import Session
from skyrocket.protocol.system_names import TOOLS_GROUP
from skyrocket.spark.sink.queue_scan import records_in
from skyrocket.spark.sink.row_ids import ID_CHARACTERS, PREFIX_CHARACTERS, row_of

_ID_MARK: Final = b"UNIQ_KEY\x01"
_QUEUES_AT_ONCE: Final = 16


async def last_offsets(session: Session, queues: list[Queue]) -> dict[Queue, int]:
    """One past the last message of each."""
    for topic in {queue.topic for queue in queues}:
        await session.route(topic)
    offsets, gate = QueueOffsets(session, TOOLS_GROUP), asyncio.Semaphore(_QUEUES_AT_ONCE)

    async def one(queue: Queue) -> int:
        async with gate:
            return await offsets.max_offset(queue)

    return dict(zip(queues, await asyncio.gather(*map(one, queues)), strict=True))


async def delivered_rows(session: Session, starts: Mapping[Queue, int], prefixes: set[str]) -> set[tuple[str, int]]:
    """The (prefix, row) of all messages from these offsets on whose id has one of these prefixes."""
    ends = await last_offsets(session, list(starts))
    wanted = {prefix.encode() for prefix in prefixes}
    found: set[tuple[str, int]] = set()
    gate = asyncio.Semaphore(_QUEUES_AT_ONCE)

    async def one(queue: Queue) -> None:
        async with gate:
            async for records in records_in(session, queue, starts[queue], ends[queue]):
                for record in records:
                    at = record.tail.find(_ID_MARK) + len(_ID_MARK)
                    if at >= len(_ID_MARK) and record.tail[at : at + PREFIX_CHARACTERS] in wanted:
                        row = row_of(record.tail[at : at + ID_CHARACTERS].decode("ascii", "replace"))
                        if row is not None:
                            found.add(row)

    await asyncio.gather(*map(one, starts))
    return found
