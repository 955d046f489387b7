"""Drives a stream reader as Spark does, without Spark: offsets pass through JSON texts, and the checkpoint is a list of them.

stream = DrivenStream({"nameserver": …, "subscribe": "orders"})
batch = stream.trigger()                     # the next batch's ranges, or None without new messages
stream = stream.restart()                  # as after a crash: a planned batch that is not finished is repeated
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from skyrocket.client.queues import Queue
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition
from skyrocket.spark.source.stream_reader import StreamReader


@dataclass
class DrivenStream:
    options: dict[str, str]
    planned: list[str] = field(default_factory=list)  # the offset log
    done: int = 0  # finished batches
    is_available_now: bool = False

    def __post_init__(self) -> None:
        self.reader = StreamReader(self.options, spark_schema(source_options(self.options).columns))
        if self.is_available_now:
            self.reader.prepareForTriggerAvailableNow()
        self._limit = self.reader.getDefaultReadLimit()

    def trigger(self, limit: ReadLimit | None = None, *, dies: bool = False) -> dict[Queue, tuple[int, int]] | None:
        """Return what the next batch reads of each queue. With `dies`, the batch is planned and not finished."""
        if len(self.planned) == self.done:
            start = self._start()
            end = _text(self.reader.latestOffset(json.loads(start), limit or self._limit))
            if self.done and end == start:
                return None
            self.planned.append(end)
            if self.done:
                self.reader.commit(json.loads(start))
        ranges = self.reader.partitions(json.loads(self._start()), json.loads(self.planned[-1]))
        if not dies:
            self.done += 1
        return join_ranges(ranges)

    def everything(self) -> dict[Queue, tuple[int, int]] | None:
        """Trigger without a limit, as Trigger.Once does."""
        return self.trigger(ReadAllAvailable())

    def restart(self, **changed: str) -> DrivenStream:
        """Return a new reader on the same checkpoint."""
        return DrivenStream({**self.options, **changed}, self.planned, self.done, self.is_available_now)

    def _start(self) -> str:
        if self.done:
            return self.planned[self.done - 1]
        self.reader.initialOffset()  # Spark asks twice
        return _text(self.reader.initialOffset())


def _text(offset: Mapping[str, Any]) -> str:
    return json.dumps(offset)


def join_ranges(ranges: Any) -> dict[Queue, tuple[int, int]]:
    """Join the pieces of each queue, and check that they fit together."""
    found: dict[Queue, tuple[int, int]] = {}
    for each in ranges:
        assert isinstance(each, QueuePartition)
        start, stop = found.get(each.queue, (each.start, each.start))
        assert stop == each.start, f"{each} does not follow what ends at {stop}"
        found[each.queue] = start, each.stop
    return found
