"""`spark.readStream.format("rocketmq")`: what Spark asks of a stream, in the order in which it asks.

    prepareForTriggerAvailableNow    only with that trigger: where the queues end now is where the query ends
    initialOffset                    a new query only, more than once: where it begins, found out once
    latestOffset(start, limit)       each trigger: how far the next batch goes. `start` is done by then
    partitions(start, end)           a batch's tasks. After a crash again, and then they are the same
    read(partition)                  in a task
    commit(end)                      that batch is done: told only when the next one is planned, and known by then

A batch is nothing but what its offsets say (`stream_offsets.py`): whatever has to be asked of the cluster is asked in
`latestOffset`, before Spark writes the answer into its checkpoint. This object lives in one process beside the driver for as long
as the query runs, and a copy that only reads in each task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from skyrocket.client.queues import Queue
from skyrocket.spark.cluster.cluster import Cluster
from skyrocket.spark.cluster.resolution import check_filter, selected_queues, starting_offsets
from skyrocket.spark.cluster.survey import asks_for, survey, whole_survey
from skyrocket.spark.columns import columns_of
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.offset_json import offsets_json
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.admission import Admission, everything
from skyrocket.spark.source.group_commits import GroupCommits
from skyrocket.spark.source.partitions import QueueRange, partitions_of, ranges_between
from skyrocket.spark.source.stream_offsets import StreamOffsets, stream_offsets
from skyrocket.spark.source.trigger import Front, QueueWatch, Survey

log = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.5


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, "stream")
        self._columns = columns_of(schema)
        self._cluster = Cluster(self._options.cluster)
        self._watch = QueueWatch(self._options.fail_on_data_loss, self._options.cluster.retry_ms)
        self._admission = Admission(self._options.max_offsets, self._options.min_offsets, self._options.max_trigger_delay_ms)
        self._initial: StreamOffsets | None = None
        self._frozen: Survey | None = None  # what there was when a query began that ends there
        self._lasts: Mapping[Queue, int] | None = None  # before any limit, as of the last trigger
        self._filtering: set[str] = set()  # brokers that take the filter
        group = self._options.commit_group
        self._group = None if group is None else GroupCommits(self._cluster, group)

    # --- where a query begins and ends

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = whole_survey(self._options, self._cluster)
        self._admission.least = None  # who takes what there is does not wait for more

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            queues = selected_queues(self._options, self._cluster, may_be_none=True)
            starts = starting_offsets(self._options, self._cluster, queues)
            self._initial = StreamOffsets(starts)
            if self._frozen is not None:
                self._frozen = self._frozen.up_to(starts)
        return self._initial.as_json()

    # --- triggers

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark hands it back with each trigger, but for those that take everything. It knows no limit that is two: the least is
        looked after here."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None and self._options.min_offsets is None else ReadMaxRows(most or 2**63 - 1)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        stands = stream_offsets(start)
        is_first = stands == self._initial
        front = self._front(stands)
        if self._group is not None and not is_first:
            self._group.follow({queue: offset for queue, offset in stands.ends.items() if queue in front.answering})
        self._check_filter(front.answering)
        self._lasts = front.lasts
        backlog = front.backlog()
        taken = everything(backlog) if isinstance(limit, ReadAllAvailable) else self._admission.admitted(backlog, _now_ms())
        end = front.end(taken, tells_all=is_first)
        return start if end is None else end.as_json()

    def _front(self, stands: StreamOffsets) -> Front:
        wanted = asks_for(self._options)
        while True:
            found = self._frozen or survey(self._options, self._cluster, stands.ends)
            front = self._watch.front(stands.ends, found, wanted, _now_ms())
            for warning in front.warnings:
                log.warning("%s", warning)
            if self._frozen is None or not self._watch.is_waiting(_now_ms()):
                return front
            # A query that ends with what there is waits for what is not there, for as long as the watch has patience.
            time.sleep(_LOOK_AGAIN_S)
            self._frozen = self._frozen.with_more(survey(self._options, self._cluster, stands.ends), stands.ends)

    def _check_filter(self, queues: Iterable[Queue]) -> None:
        """Whether each broker takes the filter, before anything is read there: one of Apache's that does not would give all."""
        news = {queue.broker_name: queue for queue in queues if queue.broker_name not in self._filtering}
        check_filter(self._options, self._cluster, tuple(news.values()))
        self._filtering.update(news)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress: how far the queues went at the last trigger. Less the end of the batch it is the lag: `lag.py`."""
        return None if self._lasts is None else dict(offsets_json(self._lasts))

    # --- batches

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ends = stream_offsets(end)
        ranges = ranges_between(ends.starts(stream_offsets(start)), ends.ends)
        return partitions_of(ranges, min_partitions=self._options.min_partitions, max_records=self._options.max_records)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, QueueRange)
        return RangeReader(self._options, partition, self._columns).batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is left to do. Spark writes into its checkpoint that a batch is done before it asks for the next one, and says
        it here only when it plans that: never, of a query's last batch. So `latestOffset` takes it from where it is to start,
        which holds after a restart, too."""
