"""The job `table`: keeps a table at the latest state of a topic of changes, once up to now or for as long as it runs.

    options = TableOptions("orders", ChangeSpec(["id"], "version"))
    maintain_table(spark, options, "postgresql://localhost/shop", cluster={"nameserver": "127.0.0.1:9876"})

A batch is read and decoded by Spark's tasks. The driver compares it with what the table has, and commits rows and offsets
together. So a run that was killed is continued by the next one, and a batch that is read again changes nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage, check_ids, comparable, replace_messages
from skyrocket.pipelines.archive.plan import MissingRange, PlanWords, QueueBounds, RunPlan, next_batch, plan_run, plan_tasks
from skyrocket.pipelines.errors import ArgumentError, TargetError
from skyrocket.pipelines.json_columns.drift import DriftCounter
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.json_columns.sample import infer_from_messages, sample_parts, take_sample
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.table.change_spec import ChangeReader, ChangeSpec
from skyrocket.pipelines.table.changes import REJECT_COLUMNS, DecoderSettings, check_spec, table_schema
from skyrocket.pipelines.table.feed import ChangeFeed, TopicFeed
from skyrocket.pipelines.table.fold import EXPECTED_VERSION, LAST_WRITER, MODES, ChangeColumns, Counts, decide
from skyrocket.pipelines.table.target import (
    TableBatch,
    TableDescription,
    TableTarget,
    WaitingChange,
    WaitingKey,
    check_description,
)
from skyrocket.pipelines.table.targets import check_target, open_target
from skyrocket.spark.source.partitions import QueuePartition

BATCH_MESSAGES: Final = 100_000  # of one commit; the driver holds them in memory
WAITING_MAX: Final = 100_000  # changes that may wait for a missing version
GAPS_SHOWN: Final = 20
REASONS_MAX: Final = 100  # different reasons of rejected messages that are counted one by one
OTHER_REASONS: Final = "other reasons"
TASK_MESSAGES_MAX: Final = 25_000
FOLLOW_S: Final = 10.0  # between two looks at the queues
WORDS: Final = PlanWords("The table", "read", "Use another table.")


@dataclass(frozen=True)
class TableOptions:
    """What the user asks for."""

    topic: str
    spec: ChangeSpec
    mode: str = LAST_WRITER
    first_version: int = 1
    columns: JsonColumns | None = None  # None: inferred when the table is made
    batch_messages: int = BATCH_MESSAGES
    waiting_max: int = WAITING_MAX
    skip_missing: bool = False

    def describe(self, columns: JsonColumns) -> TableDescription:
        return TableDescription(
            id=uuid4().hex,
            topic=self.topic,
            spec=self.spec,
            mode=self.mode,
            first_version=self.first_version,
            columns=columns,
        )


@dataclass
class TableSummary:
    """What a run did."""

    table: str
    topic: str
    columns: JsonColumns = field(default_factory=JsonColumns)
    is_new: bool = False
    planned: int = 0  # messages that a dry run would read
    messages: int = 0
    batches: int = 0
    counts: Counts = field(default_factory=Counts)
    rejected: int = 0
    rejects: str = ""  # where they are
    reasons: Counter[str] = field(default_factory=Counter)  # of the rejected ones
    queues: Counter[Queue] = field(default_factory=Counter)  # messages of each queue
    waiting: int = 0  # in the table, after the run
    gaps: list[WaitingKey] = field(default_factory=list)
    missing: list[MissingRange] = field(default_factory=list)
    drift: DriftCounter = field(default_factory=DriftCounter)

    def count_reasons(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            is_counted = reason in self.reasons or len(self.reasons) < REASONS_MAX
            self.reasons[reason if is_counted else OTHER_REASONS] += 1


def check_arguments(options: TableOptions, to: str) -> None:
    """Raise ArgumentError for an argument that cannot work, before Spark starts."""
    check_target(to)
    ChangeReader(options.spec)
    if options.mode not in MODES:
        raise ArgumentError(f"The mode is '{options.mode}'. It must be {' or '.join(MODES)}.")
    if options.mode == EXPECTED_VERSION and options.spec.version == "message:offset":
        raise ArgumentError("--version is message:offset, which does not count the changes of a key. Use --mode last-writer.")
    if options.batch_messages < 1:
        raise ArgumentError(f"A batch has {options.batch_messages} messages. It must have at least 1.")
    if options.waiting_max < 0:
        raise ArgumentError(f"At most {options.waiting_max} changes may wait. It must be 0 or more.")


def maintain_table(
    spark: SparkSession,
    options: TableOptions,
    to: str,
    *,
    cluster: Mapping[str, str],
    table: str | None = None,
    follow: bool = False,
    every_s: float = FOLLOW_S,
    stop: threading.Event | None = None,
    on_progress: OnProgress = ignore_progress,
) -> TableSummary:
    """Bring a table up to what the topic has now; with `follow`, continue until `stop` is set."""
    check_arguments(options, to)
    target = open_target(to, table, options.topic)
    try:
        target.lock()
        run = TableRun(target, options, TopicFeed(options.topic, cluster, spark), on_progress)
        run.run()
        ended = stop or threading.Event()
        while follow and not ended.wait(every_s):
            run.run()
        return run.finish()
    finally:
        target.close()


def plan_table(options: TableOptions, to: str, *, cluster: Mapping[str, str], table: str | None = None) -> TableSummary:
    """Return what a run would read, and the columns of the table, for a dry run. Nothing is written; Spark is not needed."""
    check_arguments(options, to)
    target = open_target(to, table, options.topic)
    try:
        run = TableRun(target, options, TopicFeed(options.topic, cluster))
        run.summary.planned = run.plan(create=False).total
        return run.finish()
    finally:
        target.close()


class TableRun:
    """Brings a table up to its topic, again and again."""

    def __init__(
        self, target: TableTarget, options: TableOptions, feed: ChangeFeed, on_progress: OnProgress = ignore_progress
    ) -> None:
        self._target = target
        self._options = options
        self._feed = feed
        self._on_progress = on_progress
        self._progress: dict[Queue, int] = {}
        self.summary = TableSummary(target.name, options.topic, rejects=target.rejects)
        self._description = target.load()
        if self._description is not None:
            check_description(self._description, options.describe(options.columns or JsonColumns()), target.name)
            self.summary.columns = self._description.columns

    def plan(self, *, create: bool = True) -> RunPlan:
        """Plan everything between what the table has and what the topic has; for a new table, make it first."""
        bounds = self._feed.bounds()
        if self._description is None:
            self._begin(bounds, create=create)
        self._progress = {} if self._description is None else self._target.offsets(list(bounds))
        plan = plan_run(self._progress, bounds, skip_missing=self._options.skip_missing, words=WORDS)
        if self._description is not None:
            known = comparable(self._description.last_messages, plan, bounds)
            check_ids(known, self._read_ids({one.queue: one.offset for one in known}), WORDS)
        return plan

    def _read_ids(self, offsets: Mapping[Queue, int]) -> dict[Queue, str]:
        """Return the id of the message at an offset of each queue. One that is gone is left out."""
        found: dict[Queue, str] = {}
        for batch in self._feed.messages([QueuePartition(queue, offset, offset + 1) for queue, offset in offsets.items()]):
            rows = zip(*(batch.column(name).to_pylist() for name in ("broker", "queueId", "msgId")), strict=True)
            found |= {Queue(self._options.topic, broker, queue_id): message_id for broker, queue_id, message_id in rows}
        return found

    def _describe_batch(self, description: TableDescription, batch: RunPlan) -> TableDescription:
        """Return the description with the last message of each queue that the batch reads."""
        lasts = {queue: stop - 1 for queue, stop in batch.stops.items() if stop > batch.starts[queue]}
        newer = [
            LastMessage(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=lasts[queue], id=message_id)
            for queue, message_id in self._read_ids(lasts).items()
        ]
        return msgspec.structs.replace(description, last_messages=replace_messages(description.last_messages, newer))

    def _begin(self, bounds: Mapping[Queue, QueueBounds], *, create: bool) -> None:
        """Decide on the columns of a new table, and make it. Without a schema it needs messages, and waits for the first."""
        self.summary.is_new = True
        sample = take_sample(self._feed.messages(sample_parts(bounds)))
        columns = self._options.columns
        if columns is None:
            if not sample:
                return
            columns = infer_from_messages(sample)
        check_spec(sample, self._options.spec, columns)
        self.summary.columns = columns
        if create:
            self._description = self._options.describe(columns)
            self._target.create(self._description)

    def run(self) -> None:
        """Bring the table up to where the queues end now."""
        left = self.plan()
        total, done = left.total, 0
        if self._description is None:
            return
        while (step := next_batch(left, self._options.batch_messages)) is not None:
            self._on_progress(JobProgress("applying changes", done, total))
            batch, left = step
            changes = self._feed.changes(plan_tasks(batch, self._feed.tasks, TASK_MESSAGES_MAX), self.settings)
            self.apply(batch, changes)
            self.summary.missing += batch.gaps
            done += batch.total
        self._on_progress(JobProgress("applied", done, total))

    @property
    def settings(self) -> DecoderSettings:
        """How messages become changes of this table."""
        assert self._description is not None
        return DecoderSettings(self._options.spec, self._description.columns, self._target.refuses_nul)

    def apply(self, batch: RunPlan, read: Any) -> None:
        """Decide about the changes of a batch, and commit it."""
        assert self._description is not None
        is_change = pc.is_null(read.column("_reason"))
        schema = table_schema(self._description.columns)
        new = read.filter(is_change).select(schema.names)
        rejects = read.filter(pc.invert(is_change)).select(REJECT_COLUMNS)
        keys = pc.unique(new.column("_key")).to_pylist()
        is_expected = self._description.mode == EXPECTED_VERSION
        waited = self._target.read_waiting(keys) if is_expected and keys else schema.empty_table()
        changes = pa.concat_tables([waited, new])
        columns = ChangeColumns(
            changes.column("_key").to_pylist(),
            changes.column("_version").to_pylist(),
            changes.column("_digest").to_pylist(),
            waited.num_rows,
        )
        held = self._target.read_held(keys) if keys else {}
        decision = decide(self._description.mode, held, columns, self._description.first_version)
        if decision.waiting:
            self._check_waiting(len(decision.waiting) - len(decision.settled), columns, decision.waiting)
        description = self._describe_batch(self._description, batch)
        self._target.commit(
            TableBatch(
                before=self._progress,
                stops=batch.stops,
                rows=changes.take(pa.array(decision.winners, pa.int64())),
                waiting=changes.take(pa.array(decision.waiting, pa.int64())),
                settled=[
                    WaitingChange(columns.keys[row], columns.versions[row], columns.digests[row]) for row in decision.settled
                ],
                rejects=rejects,
                description=description,
            )
        )
        self._description = description
        self._progress = {**self._progress, **batch.stops}
        self.summary.batches += 1
        self.summary.messages += read.num_rows
        self.summary.counts.add(decision.counts)
        self.summary.rejected += rejects.num_rows
        self.summary.count_reasons(rejects.column("_reason").to_pylist())
        self.summary.queues.update({queue: stop - batch.starts[queue] for queue, stop in batch.stops.items()})
        for drift in read.column("_drift").drop_null().to_pylist():
            self.summary.drift.add(drift)

    def _check_waiting(self, more: int, columns: ChangeColumns, rows: Sequence[int]) -> None:
        """Refuse a batch with which more changes would wait than may. Nothing of it is committed."""
        count = self._target.waiting_count() + more
        if count > self._options.waiting_max:
            key, version = columns.keys[rows[0]], columns.versions[rows[0]]
            raise TargetError(
                f"{count:,} changes would wait for missing versions, and {self._options.waiting_max:,} may: version {version} of "
                f"key '{key[:80]}' is one of them. Allow more with --waiting-max, or use --mode last-writer."
            )

    def finish(self) -> TableSummary:
        """Return the summary, with the changes that wait now."""
        if self._description is not None and self._description.mode == EXPECTED_VERSION:
            self.summary.waiting = self._target.waiting_count()
            self.summary.gaps = self._target.waiting_keys(GAPS_SHOWN) if self.summary.waiting else []
        return self.summary
