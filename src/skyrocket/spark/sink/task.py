"""What a task tells the driver when its rows are sent, or staged.

What a Spark task does with its rows, and what the driver does when all tasks are done.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from skyrocket.client.queues import Queue
from skyrocket.client.session.identity import new_id_factory
from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import EXACTLY_ONCE, SinkOptions
from skyrocket.spark.sink.commit import Commit
from skyrocket.spark.sink.event_loop import arrow_batches, opened_session, run
from skyrocket.spark.sink.half_messages import ClusterHalves
from skyrocket.spark.sink.handles import Handles, PackedHandles, unpacked
from skyrocket.spark.sink.ledger import Ledger
from skyrocket.spark.sink.packing import Packing
from skyrocket.spark.sink.row_ids import check_rows, id_prefix, row_ids
from skyrocket.spark.sink.rows import RowReader
from skyrocket.spark.sink.sending import Sending
from skyrocket.spark.sink.staging import Staging


@dataclass
class SinkCommit(WriterCommitMessage):
    query_id: str  # Spark tells it to tasks only, so they tell the driver's commit
    batch_id: int
    rows: int
    staged: list[PackedHandles] = field(default_factory=list)


def staged_by(messages: Iterable[WriterCommitMessage | None]) -> list[Handles]:
    """By all tasks; one that failed has no message."""
    return [unpacked(packed) for message in messages if isinstance(message, SinkCommit) for packed in message.staged]


_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"


def stream_place() -> tuple[str, int]:
    """Query and batch, as a task of a stream knows them."""
    context = TaskContext.get()
    query_id = context.getLocalProperty(_QUERY_PROPERTY) if context is not None else None
    batch_id = context.getLocalProperty(_BATCH_PROPERTY) if context is not None else None
    if query_id is None or batch_id is None:
        raise OptionError(f"Option 'delivery' is {EXACTLY_ONCE}, but Spark does not say which query and batch this task is of.")
    return query_id, int(batch_id)


def partition_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


# --- in a task


def write_task(
    iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions, query_id: str, batch_id: int
) -> SinkCommit:
    if options.exactly_once:
        return run(stage_rows(iterator, columns, options, SinkCommit(query_id, batch_id, 0), partition_number()))
    return SinkCommit(query_id, batch_id, run(send_rows(iterator, columns, options)))


async def send_rows(iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions) -> int:
    """At least once: how many rows were acknowledged, which is all of them."""
    async with opened_session(options) as session:
        sending = Sending(session, options)
        reader = RowReader(columns, options)
        packing = Packing(options.batch_bytes, options.batch_messages, options.packing())
        ids = new_id_factory(session.address)
        queues: dict[str, tuple[Queue, ...]] = {}
        count = 0
        async for batch in arrow_batches(iterator):
            now_ms = time.time_ns() // 1_000_000
            rows = reader.read(batch, [ids.next(now_ms) for _ in range(batch.num_rows)])
            count += batch.num_rows
            for topic in set(rows.topics) - queues.keys():
                queues[topic] = await sending.queues(topic)
            for request in packing.add(rows, queues.__getitem__):
                await sending.send(request)
        for request in packing.rest():
            await sending.send(request)
        await sending.finish()
        return count


async def stage_rows(
    iterator: Iterator[Any], columns: Mapping[str, int], options: SinkOptions, place: SinkCommit, partition: int
) -> SinkCommit:
    """Exactly once: where the half messages are, for the commit of the batch."""
    prefix = id_prefix(place.query_id, place.batch_id, partition)
    async with opened_session(options) as session:
        staging = Staging(session, options, prefix)
        reader = RowReader(columns, options)
        count = 0
        async for batch in arrow_batches(iterator):
            check_rows(count + batch.num_rows)
            ids = row_ids(prefix, range(count, count + batch.num_rows))
            await staging.stage(reader.read(batch, ids), ids, count)
            count += batch.num_rows
        return SinkCommit(place.query_id, place.batch_id, count, await staging.finish())


# --- on the driver


def commit_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What the tasks sent is there; what they staged is committed now."""
    first = _first(messages)
    if options.exactly_once and first is not None:
        run(_committed(options, first, messages))


def abort_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What was sent stays: at least once. What was staged is rolled back, as far as Spark knows of it."""
    first = _first(messages)
    if options.exactly_once and first is not None:
        run(_aborted(options, first, messages))


def _first(messages: Sequence[WriterCommitMessage | None]) -> SinkCommit | None:
    return next((message for message in messages if isinstance(message, SinkCommit)), None)


async def _committed(options: SinkOptions, first: SinkCommit, messages: Sequence[WriterCommitMessage | None]) -> None:
    async with commit_of(options, first.query_id, first.batch_id) as commit:
        await commit.commit(staged_by(messages))


async def _aborted(options: SinkOptions, first: SinkCommit, messages: Sequence[WriterCommitMessage | None]) -> None:
    async with commit_of(options, first.query_id, first.batch_id) as commit:
        await commit.abort(staged_by(messages))


@asynccontextmanager
async def commit_of(options: SinkOptions, query_id: str, batch_id: int) -> AsyncIterator[Commit]:
    async with opened_session(options) as session:
        yield Commit(
            ClusterHalves(session, options),
            Ledger(session, options),
            query_id,
            batch_id,
            settle_ms=options.settle_ms,
            retry_ms=options.cluster.retry_ms,
        )
