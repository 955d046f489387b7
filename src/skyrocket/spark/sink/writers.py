"""The batch sink: `frame.write.format("rocketmq").mode("append").save()`.

The stream sink: `frame.writeStream.format("rocketmq").option("checkpointLocation", …).start()`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from skyrocket.spark.errors import OptionError
from skyrocket.spark.options.sink_options import sink_options
from skyrocket.spark.sink.columns import sink_columns
from skyrocket.spark.sink.task import abort_batch, commit_batch, stream_place, write_task


class BatchWriter(DataSourceArrowWriter):
    """Made once for a write, on the driver, and pickled from there: tasks and commit know the write by the same id."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("A topic cannot be overwritten, only added to: use mode('append').")
        self._options = sink_options(options)
        self._columns = sink_columns(schema, topic=self._options.topic, exactly_once=self._options.exactly_once)
        self._write_id = f"write {self._options.write_id or uuid.uuid4()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_task(iterator, self._columns, self._options, self._write_id, 0)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_batch(self._options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort_batch(self._options, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for each batch, and once more for its commit: what they have to know of one another is in the tasks' messages."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("A topic cannot be overwritten, only added to: use outputMode('append').")
        self._options = sink_options(options)
        if self._options.write_id is not None:
            raise OptionError("Option 'writeId' is for batch writes; a stream is known by its checkpoint.")
        self._columns = sink_columns(schema, topic=self._options.topic, exactly_once=self._options.exactly_once)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        query_id, batch_id = stream_place() if self._options.exactly_once else ("", 0)
        return write_task(iterator, self._columns, self._options, query_id, batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 — Spark names it
        commit_batch(self._options, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 — Spark names it
        abort_batch(self._options, messages)
