"""The writers that Spark calls, for batches and streams.

    frame.write.format("rocketmq").mode("append").save()
    frame.writeStream.format("rocketmq").option("checkpointLocation", …).start()

The driver checks options and schema. Tasks write the rows (`task.py`). When all tasks are done, the driver commits what they have
staged, or rolls it back. With at-least-once there is nothing to commit: the rows have been sent.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import SinkOptions, sink_options
from skyrocket.spark.sink.columns import sink_columns
from skyrocket.spark.sink.commit import BatchCommit
from skyrocket.spark.sink.event_loop import open_session, run
from skyrocket.spark.sink.fence import BatchPlace
from skyrocket.spark.sink.half_messages import HalfMessages
from skyrocket.spark.sink.handles import Handles, unpack_handles
from skyrocket.spark.sink.ledger import SinkLedger
from skyrocket.spark.sink.task import SinkCommitMessage, stream_place, write_task

CommitMessages = Sequence[WriterCommitMessage | None]
"""The messages of all tasks. A task that failed has None."""


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch. Spark makes it once, on the driver, and pickles it, so all tasks are of one run."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("A topic cannot be overwritten, only appended to. Use mode('append').")
        self._options = sink_options(options)
        self._columns = sink_columns(schema, topic=self._options.topic, exactly_once=self._options.exactly_once)
        run_id = str(uuid.uuid4())
        self._place = BatchPlace(f"write {self._options.write_id or run_id}", 0, run_id)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_task(iterator, self._columns, self._options, self._place)

    def commit(self, messages: CommitMessages) -> None:
        _commit(self._options, messages)

    def abort(self, messages: CommitMessages) -> None:
        _abort(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. Spark makes a new one for each batch and for its commit; the tasks' messages connect them."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("A topic cannot be overwritten, only appended to. Use outputMode('append').")
        self._options = sink_options(options)
        if self._options.write_id is not None:
            raise OptionError("Option 'writeId' is for batch writes only. A stream is identified by its checkpoint.")
        self._columns = sink_columns(schema, topic=self._options.topic, exactly_once=self._options.exactly_once)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        place = stream_place() if self._options.exactly_once else BatchPlace("", 0, "")
        return write_task(iterator, self._columns, self._options, place)

    def commit(self, messages: CommitMessages, batchId: int) -> None:  # noqa: ARG002, N803 — Spark names it
        _commit(self._options, messages)

    def abort(self, messages: CommitMessages, batchId: int) -> None:  # noqa: ARG002, N803 — Spark names it
        _abort(self._options, messages)


# --- on the driver, when all tasks are done


@asynccontextmanager
async def open_commit(options: SinkOptions, place: BatchPlace) -> AsyncIterator[BatchCommit]:
    """Open a session for the commit, or abort, of one batch."""
    async with open_session(options) as session:
        yield BatchCommit(
            HalfMessages(session, options),
            SinkLedger(session, options, place.query_id),
            place,
            settle_ms=options.settle_ms,
            retry_ms=options.cluster.retry_ms,
        )


def _commit(options: SinkOptions, messages: CommitMessages) -> None:
    """Commit what the tasks have staged."""

    async def commit(first: SinkCommitMessage) -> None:
        async with open_commit(options, first.place) as batch:
            await batch.commit(_staged_handles(messages))

    first = _first_message(messages)
    if options.exactly_once and first is not None:
        run(commit(first))


def _abort(options: SinkOptions, messages: CommitMessages) -> None:
    """Roll back what the finished tasks have staged. With at-least-once, rows that were sent stay."""

    async def abort(first: SinkCommitMessage) -> None:
        async with open_commit(options, first.place) as batch:
            await batch.abort(_staged_handles(messages))

    first = _first_message(messages)
    if options.exactly_once and first is not None:
        run(abort(first))


def _first_message(messages: CommitMessages) -> SinkCommitMessage | None:
    return next((message for message in messages if isinstance(message, SinkCommitMessage)), None)


def _staged_handles(messages: CommitMessages) -> list[Handles]:
    return [unpack_handles(packed) for message in messages if isinstance(message, SinkCommitMessage) for packed in message.staged]
