"""Computes how far a stream is behind its queues, from the progress that Spark reports after each batch.

    lag(query.lastProgress)                       {Queue("orders", "broker-a", 0): 120, …}
    spark.streams.addListener(LagListener())      logs the lag of each query after each batch; or LagListener(callback)

The lag counts offsets; with a filter at the broker, there are fewer messages. The end of each queue is that of the batch's
trigger.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from skyrocket.client.queues import Queue
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.source.stream_offsets import parse_stream_offsets

_PYTHON_SOURCE: Final = "PythonMicroBatchStream"  # Spark's description of every source in Python contains this class name

log = logging.getLogger(__name__)


class QueryLag(NamedTuple):
    """The lag of one query after one batch."""

    query_id: str
    name: str | None
    batch_id: int
    lag: dict[Queue, int]

    @property
    def total(self) -> int:
        return sum(self.lag.values())

    def __str__(self) -> str:
        most = max(self.lag, key=lambda queue: self.lag[queue], default=None)
        where = f", most of it in {most} ({self.lag[most]})" if most is not None and self.lag[most] else ""
        return f"Query {self.name or self.query_id} is {self.total} offsets behind after batch {self.batch_id}{where}."


def lag(progress: StreamingQueryProgress | Mapping[str, Any]) -> dict[Queue, int]:
    """Return the lag of each queue that the query reads from `rocketmq`.

    Other sources are ignored. If two sources of a query read the same queue, the larger lag counts.
    """
    found: dict[Queue, int] = {}
    for ends, lasts in _source_offsets(progress):
        for queue, last in lasts.items():
            found[queue] = max(found.get(queue, 0), last - ends.get(queue, 0))
    return found


def _source_offsets(
    progress: StreamingQueryProgress | Mapping[str, Any],
) -> Iterator[tuple[Mapping[Queue, int], Mapping[Queue, int]]]:
    """Yield the end of the batch and the ends of the queues, for each `rocketmq` source that reports both."""
    report = json.loads(progress.json) if isinstance(progress, StreamingQueryProgress) else progress
    for source in report.get("sources", ()):
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if _PYTHON_SOURCE not in str(source.get("description", "")) or end is None or latest is None:
            continue
        try:
            yield parse_stream_offsets(_parse(end)).ends, parse_stream_offsets(_parse(latest)).ends
        except OffsetsError as error:
            log.debug("The progress is of another source in Python, or of another version: %s", error)


def _parse(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) else offset


class LagListener(StreamingQueryListener):
    """Passes each lag to a callback, or logs it: as a warning above `warn_above` offsets, otherwise as information."""

    def __init__(self, callback: Callable[[QueryLag], None] | None = None, *, warn_above: int | None = None) -> None:
        self._callback = callback or self._log
        self._warn_above = warn_above

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Ignore the event: no lag is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        found = lag(progress)
        if found:
            self._callback(QueryLag(str(progress.id), progress.name, progress.batchId, found))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Ignore the event: without a new batch the lag is unchanged."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Ignore the event: the last progress reported the final lag."""

    def _log(self, found: QueryLag) -> None:
        is_much = self._warn_above is not None and found.total > self._warn_above
        log.log(logging.WARNING if is_much else logging.INFO, "%s", found)
