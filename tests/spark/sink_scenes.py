"""Writes rows to a topic without Spark: runs the work of a task and of the driver's commit in this process."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence

import pyarrow as pa

from skyrocket.client import NoRouteError, PullConsumer
from skyrocket.spark.options.sink_options import SinkOptions, sink_options
from skyrocket.spark.sink.fence import BatchPlace
from skyrocket.spark.sink.handles import Handles, unpack_handles
from skyrocket.spark.sink.task import send_rows, stage_rows
from skyrocket.spark.sink.writers import open_commit

BODY = {"body": 0}
SHOWN_S_MAX = 60.0


def options_for(nameserver: str, topic: str, **more: str) -> SinkOptions:
    return sink_options({"nameserver": nameserver, "topic": topic, "settleTime": "0ms", "retryTimeout": "20s", **more})


def exactly_once(nameserver: str, topic: str, **more: str) -> SinkOptions:
    return options_for(nameserver, topic, delivery="exactly-once", **more)


def bodies(*texts: str) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([text.encode() for text in texts], pa.binary())})


async def send(options: SinkOptions, *batches: pa.RecordBatch) -> int:
    names = batches[0].schema.names
    return await send_rows(iter(batches), {name: place for place, name in enumerate(names)}, options)


async def stage(
    options: SinkOptions, batch: pa.RecordBatch, *, query: str = "q", batch_id: int = 0, partition: int = 0
) -> list[Handles]:
    columns = {name: at for at, name in enumerate(batch.schema.names)}
    done = await stage_rows(iter([batch]), columns, options, BatchPlace(query, batch_id, ""), partition)
    assert done.rows == batch.num_rows
    return [unpack_handles(packed) for packed in done.staged]


async def commit(options: SinkOptions, staged: Sequence[Handles], *, query: str = "q", batch_id: int = 0, run: str = "") -> None:
    """Commit a batch as a driver with this run id; without one, as a driver that has just started."""
    async with open_commit(options, BatchPlace(query, batch_id, run or str(uuid.uuid4()))) as one:
        await one.commit(staged)


async def abort(options: SinkOptions, staged: Sequence[Handles], *, query: str = "q", batch_id: int = 0) -> None:
    async with open_commit(options, BatchPlace(query, batch_id, "")) as one:
        await one.abort(staged)


async def visible_bodies(nameserver: str, topic: str) -> list[bytes]:
    """Return every body that a consumer can see, in any order."""
    return [message.body for message in await messages(nameserver, topic)]


async def messages(nameserver: str, topic: str, least: int = 0) -> list:
    """Return all messages of a topic, read with the client's pull consumer.

    Apache's broker shows a message a moment after it has acknowledged it, so `least` is the number to wait for.
    """
    found = []
    until_s = time.monotonic() + SHOWN_S_MAX
    while await count_in(nameserver, topic) < least:
        assert time.monotonic() < until_s, f"{await count_in(nameserver, topic)} of {least} messages came to {topic}"
        await asyncio.sleep(0.1)
    async with PullConsumer(nameserver, group="sink-reader") as consumer:
        queues = await consumer.queues(topic)
        await consumer.assign(queues)
        left = {}
        for queue in queues:
            left[queue] = await consumer.end_offset(queue) - await consumer.begin_offset(queue)
            await consumer.seek_to_begin(queue)
        while len(found) < sum(left.values()):
            more = await consumer.poll(5_000)
            assert more, f"only {len(found)} of {sum(left.values())} messages of {topic} can be read"
            found += more
    return found


async def count_in(nameserver: str, topic: str) -> int:
    """Return how many messages a topic has; 0 if it does not exist."""
    async with PullConsumer(nameserver, group="sink-reader") as consumer:
        try:
            queues = await consumer.queues(topic)
        except NoRouteError:
            return 0
        return sum([await consumer.end_offset(queue) for queue in queues])
