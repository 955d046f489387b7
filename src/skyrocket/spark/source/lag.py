"""How far a stream is behind its queues, from the progress that Spark reports after each batch.

    lag(query.lastProgress)                       {Queue("orders", "broker-a", 0): 120, …}
    spark.streams.addListener(LagListener())      logs the lag of each query after each batch; or LagListener(callback)

Offsets are counted: with a filter at the broker, fewer messages. The end of a queue is as of the batch's own trigger.
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
from skyrocket.spark.source.stream_offsets import stream_offsets

_DESCRIBED: Final = "PythonMicroBatchStream"  # in a progress, Spark calls every source in Python by the name of its own class

log = logging.getLogger(__name__)


class QueryLag(NamedTuple):
    """What a listener hands on."""

    query_id: str
    name: str | None
    batch_id: int
    lag: dict[Queue, int]

    @property
    def total(self) -> int:
        return sum(self.lag.values())

    def __str__(self) -> str:
        most = max(self.lag, key=lambda queue: self.lag[queue], default=None)
        where = f", the most of it in {most} ({self.lag[most]})" if most is not None and self.lag[most] else ""
        return f"Query {self.name or self.query_id} is {self.total} offsets behind after batch {self.batch_id}{where}."


def lag(progress: StreamingQueryProgress | Mapping[str, Any]) -> dict[Queue, int]:
    """Of each queue that the query reads from `rocketmq`; other sources are passed over. One that two sources of a query read
    has the larger lag of both."""
    found: dict[Queue, int] = {}
    for stands, lasts in _source_offsets(progress):
        for queue, last in lasts.items():
            found[queue] = max(found.get(queue, 0), last - stands.get(queue, 0))
    return found


def _source_offsets(
    progress: StreamingQueryProgress | Mapping[str, Any],
) -> Iterator[tuple[Mapping[Queue, int], Mapping[Queue, int]]]:
    """Where the batch ended and how far the queues went, for each source of ours that tells both."""
    told = json.loads(progress.json) if isinstance(progress, StreamingQueryProgress) else progress
    for source in told.get("sources", ()):
        end, latest = source.get("endOffset"), source.get("latestOffset")
        if _DESCRIBED not in str(source.get("description", "")) or end is None or latest is None:
            continue
        try:
            yield stream_offsets(_parsed(end)).ends, stream_offsets(_parsed(latest)).ends
        except OffsetsError as error:
            log.debug("Another source in Python, or none of this version: %s", error)


def _parsed(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) else offset


class LagListener(StreamingQueryListener):
    """Without a callback, each lag is a line in the log: a warning from `warn_above` offsets on, otherwise information."""

    def __init__(self, callback: Callable[[QueryLag], None] | None = None, *, warn_above: int | None = None) -> None:
        self._callback = callback or self._logged
        self._warn_above = warn_above

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known of its lag yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        found = lag(progress)
        if found:
            self._callback(QueryLag(str(progress.id), progress.name, progress.batchId, found))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing came, so nothing changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """What it leaves is known from its last progress."""

    def _logged(self, found: QueryLag) -> None:
        is_much = self._warn_above is not None and found.total > self._warn_above
        log.log(logging.WARNING if is_much else logging.INFO, "%s", found)
