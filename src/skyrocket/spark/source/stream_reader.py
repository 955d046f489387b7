"""`spark.readStream.format("rocketmq")`: the methods that Spark calls on a stream, in this order.

    prepareForTriggerAvailableNow    only with that trigger: freezes where the queues end now, which is where the query ends
    initialOffset                    only for a new query, more than once: where it starts, resolved once
    latestOffset(start, limit)       at each trigger: where the next batch ends. Everything before `start` is finished
    partitions(start, end)           the tasks of a batch. After a crash Spark calls it again, and the result is the same
    read(partition)                  in a task
    commit(end)                      the batch is finished; `latestOffset` has learned that already

The offsets of a batch (`stream_offsets.py`) define it completely. So only `latestOffset` asks the cluster, before Spark writes
its answer into the checkpoint. This object lives in one process beside the driver for as long as the query runs; each task has a
copy that only reads.
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
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.cluster.resolution import check_filter, resolve_starting_offsets, select_queues
from skyrocket.spark.columns import columns_of
from skyrocket.spark.errors import hide_traceback
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.offset_json import offsets_json
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.admission import Admission, whole_backlog
from skyrocket.spark.source.cluster_snapshot import fetch_full_snapshot, fetch_snapshot, queue_selector
from skyrocket.spark.source.group_commits import GroupCommits
from skyrocket.spark.source.partitions import QueuePartition, plan_partitions, ranges_between
from skyrocket.spark.source.stream_offsets import StreamOffsets, parse_stream_offsets
from skyrocket.spark.source.trigger import ClusterSnapshot, QueueWatch, ReadableOffsets

log = logging.getLogger(__name__)

_POLL_S: Final = 0.5


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = source_options(options, "stream")
        self._columns = columns_of(schema)
        self._cluster = ClusterClient(self._options.cluster)
        self._watch = QueueWatch(self._options.fail_on_data_loss, self._options.cluster.retry_ms)
        self._admission = Admission(self._options.max_offsets, self._options.min_offsets, self._options.max_trigger_delay_ms)
        self._initial: StreamOffsets | None = None
        self._frozen: ClusterSnapshot | None = None  # with availableNow: the queues when the query started, where it ends
        self._lasts: Mapping[Queue, int] | None = None  # the ends of the queues at the last trigger, before any limit
        self._checked_brokers: set[str] = set()  # brokers that accept the filter
        group = self._options.commit_group
        self._group = None if group is None else GroupCommits(self._cluster, group)

    # --- where a query starts and ends

    @hide_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = fetch_full_snapshot(self._options, self._cluster)
        self._admission.least = None  # a query that ends with the existing messages does not wait for more

    @hide_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:
            queues = select_queues(self._options, self._cluster, may_be_none=True)
            starts = resolve_starting_offsets(self._options, self._cluster, queues)
            self._initial = StreamOffsets(starts)
            if self._frozen is not None:
                self._frozen = self._frozen.extend_to(starts)
        return self._initial.as_json()

    # --- triggers

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that Spark passes to `latestOffset`, except for triggers that take everything.

        Spark has no limit with a minimum and a maximum, so `Admission` enforces the minimum.
        """
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None and self._options.min_offsets is None else ReadMaxRows(most or 2**63 - 1)

    @hide_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        positions = parse_stream_offsets(start)
        is_first = positions == self._initial
        readable = self._readable_offsets(positions)
        if self._group is not None and not is_first:
            self._group.commit({queue: offset for queue, offset in positions.ends.items() if queue in readable.answering})
        self._check_filter(readable.answering)
        self._lasts = readable.lasts
        backlog = readable.backlog()
        taken = whole_backlog(backlog) if isinstance(limit, ReadAllAvailable) else self._admission.admit(backlog, _now_ms())
        end = readable.end(taken, with_all_starts=is_first)
        return start if end is None else end.as_json()

    def _readable_offsets(self, positions: StreamOffsets) -> ReadableOffsets:
        is_selected = queue_selector(self._options)
        while True:
            snapshot = self._frozen or fetch_snapshot(self._options, self._cluster, positions.ends)
            readable = self._watch.compare(positions.ends, snapshot, is_selected, _now_ms())
            for warning in readable.warnings:
                log.warning("%s", warning)
            if self._frozen is None or not self._watch.is_waiting(_now_ms()):
                return readable
            # With availableNow the query has no later trigger, so it waits for a missing queue until retryTimeout.
            time.sleep(_POLL_S)
            later = fetch_snapshot(self._options, self._cluster, positions.ends)
            self._frozen = self._frozen.with_late_answers(later, positions.ends)

    def _check_filter(self, queues: Iterable[Queue]) -> None:
        """Check that each broker accepts the filter, before the first read: Apache's broker may otherwise return all messages."""
        unchecked = {queue.broker_name: queue for queue in queues if queue.broker_name not in self._checked_brokers}
        check_filter(self._options, self._cluster, tuple(unchecked.values()))
        self._checked_brokers.update(unchecked)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the queues at the last trigger, for Spark's progress. `lag.py` computes the lag from them."""
        return None if self._lasts is None else dict(offsets_json(self._lasts))

    # --- batches

    @hide_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ends = parse_stream_offsets(end)
        ranges = ranges_between(ends.starts(parse_stream_offsets(start)), ends.ends)
        return plan_partitions(ranges, min_partitions=self._options.min_partitions, max_records=self._options.max_records)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, QueuePartition)
        return RangeReader(self._options, partition, self._columns).batches()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing.

        Spark calls this for a finished batch only when it plans the next one, so never for a query's last batch. Spark's
        checkpoint has the finished batch before that: the `start` of `latestOffset` is its end, after a restart too. So
        `latestOffset` commits the group's offsets.
        """
