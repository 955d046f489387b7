"""The archive job: copies topics to Parquet files or a Delta table, once up to now or for as long as it runs.

    archive_topics(spark, ["orders", "pay-*"], "/mnt/archive", cluster={"nameserver": "127.0.0.1:9876"})

A run asks where the queues end, and takes batches until it has all of that. The archive itself has the offsets that it reached,
so a run that was killed is continued by the next one. There is no checkpoint beside it that could get lost or be older.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec
from pyspark.sql import SparkSession

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.archive_folder import FORMATS, ArchiveFolder, TableFormat, archive_lock, keep_readers_out
from skyrocket.pipelines.archive.batch_record import (
    LostMessages,
    StagedFile,
    append_record,
    compact_record,
    read_row,
)
from skyrocket.pipelines.archive.compaction import ROOT, ArchiveMerge, SizedFile, plan_merges
from skyrocket.pipelines.archive.delta_table import DeltaArchive
from skyrocket.pipelines.archive.files_source import (
    COMPRESSION,
    FOLDER,
    JSON_COLUMNS,
    PLAN,
    WITH_PARTITIONS,
    ArchiveFiles,
    encode_plan,
)
from skyrocket.pipelines.archive.iceberg_table import IcebergArchive
from skyrocket.pipelines.archive.layout import HOUR_MS, hour_text
from skyrocket.pipelines.archive.parquet_table import ParquetTable
from skyrocket.pipelines.archive.plan import (
    ARCHIVE_WORDS,
    QueueBounds,
    RunPlan,
    is_pattern,
    next_batch,
    plan_run,
    plan_tasks,
    select_topics,
)
from skyrocket.pipelines.archive.single_messages import ask_reserved_ms, check_last_messages, read_waited_ms
from skyrocket.pipelines.archive.summary import ArchiveSummary, TopicCounts
from skyrocket.pipelines.clusters import parallel_tasks, parse_cluster, require_queues
from skyrocket.pipelines.errors import ArchiveError, ArgumentError
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.json_columns.sample import infer_from_messages, read_messages, sample_parts, take_sample
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.task_progress import share_of, watching_tasks
from skyrocket.spark.cluster.cluster_client import ClusterClient

INFER: Final = "infer"  # typed columns of JSON bodies: those that the newest messages have
COMPRESSIONS: Final = ("lz4", "zstd", "snappy", "none")
BATCH_MESSAGES: Final = 2_000_000  # of one publication
TASK_MESSAGES_MAX: Final = 1_000_000
TASKS_MAX: Final = 10_000
LOCK_WAIT_S: Final = 5.0  # for a reader that finishes an interrupted batch
FOLLOW_S: Final = 10.0  # between two looks at the queues


Table = ParquetTable | DeltaArchive | IcebergArchive
_TABLES: Final[dict[str, Callable[[ArchiveFolder], Table]]] = {
    "parquet": ParquetTable,
    "delta": DeltaArchive,
    "iceberg": IcebergArchive,
}


def open_table(
    root: Path,
    table_format: TableFormat | None = None,
    *,
    create: bool = False,
    json_columns: JsonColumns | None = None,
) -> Table:
    """Open an archive. Raise ArchiveError if there is none and none is to be created, or if it has another format."""
    folder = ArchiveFolder.open(root)
    if folder is None:
        if not create:
            raise ArchiveError(f"{root} is not an archive. Make one with: skyrocket pipeline archive TOPIC --to {root}")
        folder = ArchiveFolder.create(root, table_format or "parquet", json_columns)
    if table_format is not None and folder.format != table_format:
        raise ArgumentError(f"{root} is an archive of format {folder.format}, not {table_format}. Leave --format out.")
    return _TABLES[folder.format](folder)


def archive_topics(
    spark: SparkSession,
    topics: Sequence[str],
    to: str | Path,
    *,
    cluster: Mapping[str, str],
    table_format: TableFormat | None = None,
    json_columns: JsonColumns | Literal["infer"] | None = None,
    compression: str = "lz4",
    batch_messages: int = BATCH_MESSAGES,
    skip_missing: bool = False,
    compact: bool = False,
    follow: bool = False,
    every_s: float = FOLLOW_S,
    compact_every_s: float | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ArchiveSummary:
    """Archive everything that the topics have now; with `follow`, continue until `stop` is set.

    `to` is a folder that the driver and every task reach under this path. `table_format` (parquet, delta, iceberg) is for a new
    archive. `json_columns` gives bodies typed columns: these, or those that the newest messages have. `compact` merges small
    files in the end, `compact_every_s` those of past hours now and then while it follows.
    """
    root = check_arguments(topics, to, table_format, compression, batch_messages)
    check_topics(topics, cluster)
    with _open_for_writing(root, table_format, lambda: decide_json_columns(root, json_columns, topics, cluster)) as table:
        if (compact or compact_every_s is not None) and table.folder.format == "iceberg":
            option = "--compact" if compact else "--compact-every"
            raise ArgumentError(f"{root} is an Iceberg table, and files of those are not merged. Leave {option} out.")
        job = _ArchiveRun(spark, table, cluster, compression, batch_messages, skip_missing, on_progress)
        job.run(topics)
        ended, compacted_s = stop or threading.Event(), time.monotonic()
        while follow and not ended.wait(every_s):
            job.run(topics)
            if compact_every_s is not None and time.monotonic() - compacted_s >= compact_every_s:
                job.compact(before=hour_text(time.time_ns() // 1_000_000 // HOUR_MS))
                compacted_s = time.monotonic()
        if compact:
            job.compact()
        return job.summary


def archive_ranges(
    spark: SparkSession,
    ranges: Mapping[Queue, QueueBounds],
    to: str | Path,
    *,
    cluster: Mapping[str, str],
    compression: str = "lz4",
    batch_messages: int = BATCH_MESSAGES,
    on_progress: OnProgress = ignore_progress,
) -> ArchiveSummary:
    """Archive these offsets of these queues as Parquet files. The same call again takes what is left of them."""
    root = check_arguments([queue.topic for queue in ranges], to, "parquet", compression, batch_messages)
    with _open_for_writing(root, "parquet") as table:
        job = _ArchiveRun(spark, table, cluster, compression, batch_messages, False, on_progress)
        job.run_ranges(ranges)
        return job.summary


@contextmanager
def _open_for_writing(
    root: Path, table_format: TableFormat | None, decide_columns: Callable[[], JsonColumns | None] = lambda: None
) -> Iterator[Table]:
    """Open or create an archive, hold its lock, and finish what a killed run has left.

    `decide_columns` is called with the lock held, and decides about the typed columns of a new archive.
    """
    ArchiveFolder.open(root)  # refuse a folder of something else before the lock makes a file in it
    with archive_lock(root, LOCK_WAIT_S):
        table = open_table(root, table_format, create=True, json_columns=decide_columns())
        table.recover()
        yield table


def plan_archive(
    topics: Sequence[str],
    to: str | Path,
    *,
    cluster: Mapping[str, str],
    table_format: TableFormat | None = None,
    skip_missing: bool = False,
) -> tuple[ArchiveSummary, RunPlan]:
    """Return what a run would archive, for a dry run. Nothing is written, and Spark is not needed."""
    root = check_arguments(topics, to, table_format, COMPRESSIONS[0], BATCH_MESSAGES)
    found = ArchiveFolder.open(root)
    last = None if found is None else open_table(root, table_format).last()
    client = ClusterClient(parse_cluster(cluster))
    bounds = queue_bounds(client, topics)
    run = plan_run({} if last is None else last.progress, bounds, skip_missing=skip_missing)
    if last is not None:
        check_last_messages(cluster, last.last_messages, run, bounds, ARCHIVE_WORDS)
    name = table_format or ("parquet" if found is None else found.format)
    summary = ArchiveSummary(str(root), name, "" if found is None else found.id, last_batch=0 if last is None else last.batch)
    summary.planned = run.total
    summary.waited_ms = 0 if last is None else read_waited_ms(cluster, run, last.progress)
    summary.reserved_ms = ask_reserved_ms(cluster, {queue.broker_name for queue in run.starts})
    for queue, start in run.starts.items():
        summary.topics.setdefault(queue.topic, TopicCounts()).messages += run.stops[queue] - start
    return summary, run


def check_arguments(
    topics: Sequence[str], to: str | Path, table_format: str | None, compression: str, batch_messages: int
) -> Path:
    """Return the archive's folder. Raise ArgumentError for an argument that cannot work, before Spark starts."""
    if not topics:
        raise ArgumentError("No topic is given. Name topics, or patterns such as 'order-*'.")
    if table_format is not None and table_format not in FORMATS:
        raise ArgumentError(f"The format is '{table_format}'. It must be one of {', '.join(FORMATS)}.")
    if compression not in COMPRESSIONS:
        raise ArgumentError(f"The compression is '{compression}'. It must be one of {', '.join(COMPRESSIONS)}.")
    if batch_messages < 1:
        raise ArgumentError(f"A batch has {batch_messages} messages. It must have at least 1.")
    if "://" in str(to):
        raise ArgumentError(f"'{to}' is a URL. An archive is a folder that the driver and all tasks reach under one path.")
    return Path(to).absolute()


def decide_json_columns(
    root: Path, wanted: JsonColumns | Literal["infer"] | None, topics: Sequence[str], cluster: Mapping[str, str]
) -> JsonColumns | None:
    """Return the typed columns of an archive. An existing one keeps its own; raise ArgumentError if others are wanted."""
    folder = ArchiveFolder.open(root)
    if folder is not None:
        if wanted is not None and (folder.json_columns is None or wanted not in (INFER, folder.json_columns)):
            has = "no JSON columns" if folder.json_columns is None else "other JSON columns"
            raise ArgumentError(f"{root} is an archive with {has}. They are decided when it is made: use another folder.")
        return folder.json_columns
    if wanted != INFER:
        return wanted
    bounds = queue_bounds(ClusterClient(parse_cluster(cluster)), topics)
    found = infer_from_messages(take_sample(read_messages(cluster, sample_parts(bounds), ("body",))))
    if not found.columns:
        raise ArgumentError(
            "None of the newest messages has a body that is a JSON object with fields. Name the columns with --schema FILE."
        )
    return found


def check_topics(topics: Sequence[str], cluster: Mapping[str, str]) -> None:
    """Raise ArgumentError if a topic does not exist, before Spark starts and a folder is made."""
    find_queues(ClusterClient(parse_cluster(cluster)), topics)


def find_queues(client: ClusterClient, topics: Sequence[str]) -> list[Queue]:
    """Return the queues of the topics that names and patterns select."""
    named = select_topics(topics, client.topics() if any(map(is_pattern, topics)) else ())
    return [queue for found in require_queues(client, named).values() for queue in found]


def queue_bounds(client: ClusterClient, topics: Sequence[str]) -> dict[Queue, QueueBounds]:
    """Ask where the queues of the topics begin and end now."""
    queues = find_queues(client, topics)
    lasts = client.last_offsets(queues)  # before the first ones: a message that arrives in between belongs to the next run
    firsts = client.first_offsets(queues)
    return {queue: QueueBounds(firsts[queue], max(lasts[queue], firsts[queue])) for queue in queues}


class _ArchiveRun:
    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        cluster: Mapping[str, str],
        compression: str,
        batch_messages: int,
        skip_missing: bool,
        on_progress: OnProgress,
    ) -> None:
        self._spark = spark
        self._table = table
        self._cluster = dict(cluster)
        self._client = ClusterClient(parse_cluster(cluster))
        self._compression = compression
        self._batch_messages = batch_messages
        self._skip_missing = skip_missing
        self._has_asked = False  # how long brokers keep messages
        self._on_progress = on_progress
        self._last = last = table.last()
        self._progress: dict[Queue, int] = {} if last is None else last.progress
        folder = table.folder
        self.summary = ArchiveSummary(str(folder.root), folder.format, folder.id, last_batch=0 if last is None else last.batch)
        self.summary.json_columns = folder.json_columns
        for source in (ArchiveFiles, ArchiveMerge):
            spark.dataSource.register(source)
        self._tasks = parallel_tasks(spark)

    def run(self, topics: Sequence[str]) -> None:
        """Archive everything up to where the queues end now."""
        bounds = queue_bounds(self._client, topics)
        if not self._has_asked:
            self._has_asked = True
            self.summary.reserved_ms = ask_reserved_ms(self._cluster, {queue.broker_name for queue in bounds})
        self.run_ranges(bounds)

    def run_ranges(self, bounds: Mapping[Queue, QueueBounds]) -> None:
        """Archive what the archive does not have yet of these ranges."""
        left = plan_run(self._progress, bounds, skip_missing=self._skip_missing)
        if self._last is not None:
            check_last_messages(self._cluster, self._last.last_messages, left, bounds, ARCHIVE_WORDS)
        total, done, planned_ms, known = left.total, 0, time.time_ns() // 1_000_000, frozenset(self._progress)
        while (step := next_batch(left, self._batch_messages)) is not None:
            self._on_progress(JobProgress("archiving", done, total))
            batch, left = step
            so_far = JobProgress("writing files", done, total)
            files = self._write_files(batch, so_far)
            self._publish(batch, files)
            self.summary.count_wait(planned_ms, (file.first_ms for file in files if file.queue in known))
            done += batch.total
        self._on_progress(JobProgress("archived", done, total))

    def _write_files(self, batch: RunPlan, so_far: JobProgress) -> list[StagedFile]:
        parts = plan_tasks(batch, min(self._tasks, TASKS_MAX), TASK_MESSAGES_MAX)
        options = {PLAN: encode_plan(parts), FOLDER: str(self._table.folder.staged), COMPRESSION: self._compression}
        if self._table.folder.json_columns is not None:
            options[JSON_COLUMNS] = msgspec.json.encode(self._table.folder.json_columns).decode()
        if self._table.folder.format == "iceberg":
            options[WITH_PARTITIONS] = "true"
        frame = self._spark.read.format(ArchiveFiles.name()).options(**self._cluster, **options).load()

        def report(done: int, tasks: int) -> JobProgress:
            return so_far._replace(done=so_far.done + share_of(batch.total, done, tasks))

        with watching_tasks(self._spark, report, self._on_progress):
            return [read_row(row) for row in frame.collect()]

    def _publish(self, batch: RunPlan, files: Sequence[StagedFile]) -> None:
        lost = [
            LostMessages(
                topic=gap.queue.topic, broker=gap.queue.broker_name, queue_id=gap.queue.queue_id, start=gap.start, stop=gap.stop
            )
            for gap in batch.gaps
        ]
        offsets = {**self._progress, **batch.stops}
        record = append_record(
            self._table.folder.id,
            self.summary.last_batch + 1,
            offsets,
            files,
            lost,
            starts=batch.starts,
            before=self._last,
        )
        self._table.publish(record)
        self._last, self._progress = record, offsets
        self.summary.add(record)
        for file in files:
            self.summary.bad_bodies += file.bad_bodies
            self.summary.drift.add_counts(json.loads(file.drift))

    def compact(self, before: str | None = None) -> None:
        """Merge small files; with `before`, only of the hours before that one. Files that a job reads are left alone."""
        self._on_progress(JobProgress("compacting", unit="files"))
        if isinstance(self._table, DeltaArchive):
            self.summary.merged += self._table.compact(before)["removed"]
            return
        with keep_readers_out(self._table.folder.root) as is_unread:
            self.summary.is_put_off = not is_unread
        if is_unread:
            self._merge_files(before)

    def _merge_files(self, before: str | None) -> None:
        assert isinstance(self._table, ParquetTable)
        root = self._table.folder.root
        paths = [Path(path) for path in self._table.files()]
        sizes = [SizedFile(str(path.relative_to(root)), path.stat().st_size) for path in paths]
        groups = plan_merges(sizes, before=before)
        if not groups:
            return
        options = {
            PLAN: json.dumps(groups),
            ROOT: str(root),
            FOLDER: str(self._table.folder.staged),
            COMPRESSION: self._compression,
        }
        files = [read_row(row) for row in self._spark.read.format(ArchiveMerge.name()).options(**options).load().collect()]
        removed = [path for group in groups for path in group]
        record = compact_record(self._table.folder.id, self.summary.last_batch + 1, self._progress, files, removed, self._last)
        with keep_readers_out(root) as is_unread:  # only while files are deleted: who begins to read meanwhile, waits for that
            self.summary.is_put_off = not is_unread
            if is_unread:
                self._table.publish(record)
        if not is_unread:
            self._table.folder.prepare_staging()
            return
        self._last = record
        self.summary.last_batch = record.batch
        self.summary.merged += len(removed)
