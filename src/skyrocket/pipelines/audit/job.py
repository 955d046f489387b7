"""The job `audit`: reads topics as runs on Spark, and compares what was sent, stored and consumed."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skyrocket.client import ClientError, NotFoundError
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.pipelines.audit.findings import (
    AuditReport,
    NumberRun,
    StreamAudit,
    StreamKey,
    audit_stream,
)
from skyrocket.pipelines.audit.following import FIRST_NUMBER, FollowingAudit, Runs
from skyrocket.pipelines.audit.run_source import CONSUMED_OFFSETS, SequenceRuns
from skyrocket.pipelines.errors import ArgumentError, PipelineError
from skyrocket.spark.options.offset_json import offsets_json

RUNS_AT_DRIVER_MAX: Final = 5_000_000
RETRY_S: Final = 600.0  # how long a following audit looks again after looks that fail

Offsets = Mapping[Queue, int]

log = logging.getLogger(__name__)


@dataclass(slots=True)
class StreamRuns:
    """What tasks found: the runs of each stream, and messages without a stamp."""

    runs: dict[StreamKey, list[NumberRun]] = field(default_factory=dict)
    unstamped: dict[Queue, int] = field(default_factory=dict)
    messages: int = 0

    def add_rows(self, rows: Iterable[Any]) -> None:
        """Add the rows of `SequenceRuns`."""
        count = 0
        for row in rows:
            queue = Queue(row.topic, row.broker, row.queueId)
            if row.producer is None:
                self.unstamped[queue] = self.unstamped.get(queue, 0) + row.unstamped
                self.messages += row.unstamped
                continue
            run = NumberRun(row.first, row.last, row.firstOffset, row.isConsumed)
            self.runs.setdefault(StreamKey(row.producer, queue), []).append(run)
            self.messages += run.length
            count += 1
            if count > RUNS_AT_DRIVER_MAX:
                raise PipelineError(f"The topics have more than {RUNS_AT_DRIVER_MAX:,} runs of numbers. Audit a shorter time.")


def require_group(admin: Admin, group: str) -> None:
    """Raise NotFoundError unless a broker has the group, or offsets of it."""
    try:
        admin.groups.get(group)
    except NotFoundError:
        if not admin.groups.topics(group):
            raise


def _log_failure(error: Exception) -> None:
    log.warning("A look of the audit failed, and is repeated: %s", error)


class TopicAudit:
    """Audits topics of one cluster."""

    def __init__(
        self,
        spark: SparkSession,
        admin: Admin,
        options: Mapping[str, str],
        topics: Sequence[str],
        *,
        group: str | None = None,
        sent: Mapping[StreamKey, int] | None = None,
    ) -> None:
        """`options` are those of the Spark source that name the cluster. `sent` is what producers say that they sent."""
        if not topics:
            raise ArgumentError("The audit needs a topic. Name one or more.")
        self._spark = spark
        self._admin = admin
        self._options = dict(options)
        self._topics = list(dict.fromkeys(topics))
        self._group = group
        self._sent = dict(sent or {})
        spark.dataSource.register(SequenceRuns)

    def once(self, *, since_ms: int | None = None, min_partitions: int | None = None) -> AuditReport:
        """Audit what the topics have now. With `since_ms`, streams begin with the first number that is read."""
        firsts = self._offsets("first")
        stops = self._offsets("last")
        chosen: dict[str, str] = {"endingOffsets": json.dumps(offsets_json(stops))}
        if since_ms is not None:
            chosen |= {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
        if min_partitions is not None:
            chosen["minPartitions"] = str(min_partitions)
        found = self._read(chosen)
        whole = {queue for queue in stops if since_ms is None and firsts.get(queue, 0) == 0}  # read from their first message
        keys = sorted({*found.runs, *(key for key in self._sent if key.queue in whole)})
        streams = [
            audit_stream(
                key,
                found.runs.get(key, ()),
                begins_at=FIRST_NUMBER if key.queue in whole else None,
                sent=self._sent.get(key),
                has_group=self._group is not None,
            )
            for key in keys
        ]
        return AuditReport(streams, found.unstamped, found.messages)

    def follow(
        self,
        *,
        state: Path | None = None,
        on_failure: Callable[[Exception], None] = _log_failure,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> Iterator[list[StreamAudit]]:
        """Audit what is there, then what has come since, with each step. Yields the streams that have something new to tell.

        A look that fails, such as while a broker restarts, tells nothing new; the next one reads what it would have read.
        `on_failure` hears of the first failure in a row, and after `retry_s` of them the last one is raised. The first look must
        not fail. `state` names a file with which another process goes on where this one ends.
        """
        following = FollowingAudit(self._what(), state)
        has_looked, failing_since_s = False, None
        while True:
            news: list[StreamAudit] = []
            try:
                news = following.look(self._offsets("first"), self._offsets("last"), self._read_between)
            except (ClientError, PySparkException) as error:
                now_s = clock()
                if not has_looked or (failing_since_s is not None and now_s - failing_since_s > retry_s):
                    raise
                if failing_since_s is None:
                    failing_since_s = now_s
                    on_failure(error)
            else:
                has_looked, failing_since_s = True, None
            yield news

    def _what(self) -> str:
        where = self._options.get("nameserver") or self._options.get("addressServer") or ""
        return f"{', '.join(sorted(self._topics))} at {where}"

    def _read_between(self, starts: Offsets, stops: Offsets) -> Runs:
        chosen = {"startingOffsets": json.dumps(offsets_json(starts)), "endingOffsets": json.dumps(offsets_json(stops))}
        return self._read(chosen).runs

    def _read(self, chosen: Mapping[str, str]) -> StreamRuns:
        options = {**self._options, "subscribe": ",".join(self._topics), **chosen}
        if self._group is not None:
            options[CONSUMED_OFFSETS] = json.dumps(offsets_json(self._committed()))
        found = StreamRuns()
        found.add_rows(self._spark.read.format(SequenceRuns.name()).options(**options).load().toLocalIterator())
        return found

    def _committed(self) -> Offsets:
        assert self._group is not None
        rows = [row for topic in self._topics for row in self._admin.offsets.get(self._group, topic)]
        return {row.queue: row.offset or 0 for row in rows}

    def _offsets(self, moment: str) -> dict[Queue, int]:
        return {queue: offset for topic in self._topics for queue, offset in self._admin.offsets.at(topic, moment).items()}  # type: ignore[arg-type]
