"""The work of one Spark task of the sink: sends or stages its rows, and reports the result to the driver's commit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from skyrocket.client.queues import Queue
from skyrocket.client.session.identity import new_id_factory
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import EXACTLY_ONCE, SinkOptions
from skyrocket.spark.sink.event_loop import arrow_batches, open_session, run
from skyrocket.spark.sink.fence import BatchPlace
from skyrocket.spark.sink.handles import PackedHandles
from skyrocket.spark.sink.packing import Packing
from skyrocket.spark.sink.row_ids import check_rows, id_prefix, row_ids
from skyrocket.spark.sink.rows import RowReader
from skyrocket.spark.sink.sender import RequestSender
from skyrocket.spark.sink.staging import RowStaging

_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"
_RUN_PROPERTY = "spark.jobGroup.id"  # a stream runs its jobs in a group with the id of its run


@dataclass
class SinkCommitMessage(WriterCommitMessage):
    """What a task reports to the driver's commit."""

    place: BatchPlace  # Spark gives it to tasks only, so the driver's commit gets it from them
    rows: int
    staged: list[PackedHandles] = field(default_factory=list)


def stream_place() -> BatchPlace:
    """Return the query, batch and run of the current task of a stream."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_PROPERTY) if context is not None else None
    batch_id = context.getLocalProperty(_BATCH_PROPERTY) if context is not None else None
    if query_id is None or batch_id is None:
        raise OptionError(f"Option 'delivery' is {EXACTLY_ONCE}, but Spark does not report the query and batch of this task.")
    assert context is not None
    return BatchPlace(query_id, int(batch_id), context.getLocalProperty(_RUN_PROPERTY) or query_id)


def partition_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def write_task(iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions, place: BatchPlace) -> SinkCommitMessage:
    if options.exactly_once:
        return run(stage_rows(iterator, columns, options, place, partition_number()))
    return SinkCommitMessage(place, run(send_rows(iterator, columns, options)))


async def send_rows(iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions) -> int:
    """Send the rows at least once. Return their number; each has been acknowledged."""
    async with open_session(options) as session:
        sender = RequestSender(session, options)
        reader = RowReader(columns, options)
        packing = Packing(options.batch_bytes, options.batch_messages, options.body_compression())
        ids = new_id_factory(session.address)
        queues: dict[str, tuple[Queue, ...]] = {}
        count = 0
        async for batch in arrow_batches(iterator):
            now_ms = time.time_ns() // 1_000_000
            rows = reader.read(batch, [ids.next(now_ms) for _ in range(batch.num_rows)])
            count += batch.num_rows
            for topic in set(rows.topics) - queues.keys():
                queues[topic] = await sender.queues(topic)
            for request in packing.add(rows, queues.__getitem__):
                await sender.send(request)
        for request in packing.rest():
            await sender.send(request)
        await sender.finish()
        return count


async def stage_rows(
    iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions, place: BatchPlace, partition: int
) -> SinkCommitMessage:
    """Stage the rows as half messages. Return their handles, for the commit of the batch."""
    prefix = id_prefix(place.query_id, place.batch_id, partition)
    async with open_session(options) as session:
        staging = RowStaging(session, options, prefix)
        reader = RowReader(columns, options)
        count = 0
        async for batch in arrow_batches(iterator):
            check_rows(count + batch.num_rows)
            ids = row_ids(prefix, range(count, count + batch.num_rows))
            await staging.stage(reader.read(batch, ids), ids, count)
            count += batch.num_rows
        return SinkCommitMessage(place, count, await staging.finish())
