"""The replay job: reads an archive, a store directory or a topic with Spark, and sends what is selected to a topic.

    replay_messages(spark, ReplaySource("archive", "/mnt/archive"), to="orders-again", cluster={"nameserver": "127.0.0.1:9876"})

Each task gets whole queues, sorted by offset, so a queue keeps its order. `progress` names a folder: a replay that was killed and
is started again with the same arguments continues there, and sends nothing twice.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Producer
from skyrocket.pipelines.archive.archive_folder import keep_files
from skyrocket.pipelines.archive.reading import read_archive
from skyrocket.pipelines.clusters import parallel_tasks, parse_cluster, require_queues, runs_here
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress, watching
from skyrocket.pipelines.replay.progress_file import ProgressFile, open_replay, read_sent
from skyrocket.pipelines.replay.queue_map import divide_queues, map_queues, share_rate, target_topics
from skyrocket.pipelines.replay.replay_task import COLUMNS, GROUP, SENT_ROW, ReplayTask
from skyrocket.pipelines.replay.selection import Selection
from skyrocket.protocol.system_names import retry_topic
from skyrocket.spark.cluster.cluster_client import ClusterClient

Replay = TypeVar("Replay", bound="Callable[..., ReplaySummary]")

SourceKind = Literal["archive", "store", "topic"]
KINDS: Final = ("archive", "store", "topic")
_QUEUE_COLUMNS: Final = ("topic", "broker", "queueId")
_SLOTS_SEARCHED: Final = 64  # for each task: see _slots


NO_PROGRESS: Final = (
    "A replay on a cluster of Spark needs --progress, a folder that every worker reaches under the same path: a task that Spark "
    "repeats on another machine would send its messages again without it."
)


class ReplaySource(NamedTuple):
    kind: SourceKind
    where: str  # a folder, or a topic

    def __str__(self) -> str:
        return f"{self.kind} {self.where}"


@dataclass
class QueueCounts:
    selected: int  # messages of the source that the conditions select
    sent: int = 0  # in this run
    target: Queue | None = None


@dataclass
class ReplaySummary:
    """What a run did, or would do."""

    source: str
    replay_id: str = ""
    queues: dict[Queue, QueueCounts] = field(default_factory=dict)

    @property
    def selected(self) -> int:
        return sum(counts.selected for counts in self.queues.values())

    @property
    def sent(self) -> int:
        return sum(counts.sent for counts in self.queues.values())


def _keeping_files(replay: Replay) -> Replay:
    """Keep the files of an archive while it is replayed: Spark opens them late, and a compaction would delete them."""

    @wraps(replay)
    def call(spark: SparkSession, source: ReplaySource, **given: Any) -> ReplaySummary:
        with keep_files(Path(source.where).absolute()) if source.kind == "archive" else nullcontext():
            return replay(spark, source, **given)

    return cast("Replay", call)


@_keeping_files
def replay_messages(
    spark: SparkSession,
    source: ReplaySource,
    *,
    to: str | None = None,
    to_group: str | None = None,
    cluster: Mapping[str, str],
    to_cluster: Mapping[str, str] | None = None,
    selection: Selection | None = None,
    rate: float | None = None,
    progress: str | Path | None = None,
    dry_run: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> ReplaySummary:
    """Send the selected messages to topic `to`, to the retry topic of `to_group`, or each to the topic of its own name.

    Only that group gets what is in its retry topic, and its consumers see each message under its own topic. `cluster` is that of
    the source topic, and of the target unless `to_cluster` names another. `rate` is a limit in messages a second. Without
    `progress`, a replay that is killed cannot be continued. On a cluster of Spark it is required.
    """
    selected = selection or Selection()
    check_arguments(source, to, to_group, to_cluster, rate)
    if progress is None and not dry_run and not runs_here(spark):
        raise ArgumentError(NO_PROGRESS)
    target = dict(to_cluster or cluster)
    if to_group is not None:
        to = open_retry_topic(target, to_group, create=not dry_run)
    on_progress(JobProgress("reading the source"))
    frame = select_rows(load_source(spark, source, cluster, selected), selected)
    counts = count_by_queue(frame)
    summary = ReplaySummary(str(source), queues={queue: QueueCounts(count) for queue, count in counts.items()})
    queues = map_queues(counts, find_targets(target, counts, to), to) if counts else {}
    for queue, mapped in queues.items():
        summary.queues[queue].target = mapped
    if dry_run or not counts:
        return summary
    with _progress_folder(progress) as folder:
        summary.replay_id = open_replay(folder, describe(source, to, target, selected))
        parts = divide_queues(counts, parallel_tasks(spark))
        # A task that Spark repeats finds messages that its first attempt has sent: what this run sent is a difference.
        before = {queue: saved.sent if (saved := ProgressFile(folder, queue).read()) else 0 for queue in counts}
        remaining = {queue: max(0, count - before[queue]) for queue, count in counts.items()}
        rates = None if rate is None else share_rate(rate, parts, remaining)
        task = ReplayTask(summary.replay_id, str(folder), target, queues, rates)

        def look() -> JobProgress:
            return JobProgress("replaying", min(summary.selected, read_sent(folder)), summary.selected)

        with watching(look, on_progress):
            for row in _send(spark, frame, parts, task).collect():
                queue = Queue(row.topic, row.broker, row.queueId)
                summary.queues[queue].sent = row.sentEver - before[queue]
    return summary


@contextmanager
def _progress_folder(given: str | Path | None) -> Iterator[Path]:
    """Yield the folder of the progress files: the user's, or one that is gone afterwards."""
    if given is not None:
        yield Path(given).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="skyrocket-replay-") as folder:
        yield Path(folder)


def check_arguments(
    source: ReplaySource, to: str | None, to_group: str | None, to_cluster: Mapping[str, str] | None, rate: float | None
) -> None:
    """Raise ArgumentError for an argument that cannot work, before Spark starts."""
    if source.kind not in KINDS or not source.where:
        raise ArgumentError("Name one source: an archive, a store directory or a topic.")
    if rate is not None and not rate > 0:
        raise ArgumentError(f"The rate is {rate:g} messages a second. It must be more than 0.")
    if to is not None and to_group is not None:
        raise ArgumentError("Give either --to or --to-group, not both.")
    if to is None and to_group is None and to_cluster is None:
        raise ArgumentError(
            "Name the topic to send to with --to. Only a replay to another cluster may keep the topics' names, and only one "
            "with --to-group needs no topic."
        )


def describe(source: ReplaySource, to: str | None, target: Mapping[str, str], selection: Selection) -> str:
    """Return a text that is equal for equal replays. Secrets are left out."""
    where = target.get("nameserver") or target.get("addressServer") or ""
    return f"{source} to {to or 'the same topics'} at {where}, {' AND '.join(selection.conditions()) or 'everything'}"


# --- the source


def load_source(spark: SparkSession, source: ReplaySource, cluster: Mapping[str, str], selection: Selection) -> DataFrame:
    if source.kind == "archive":
        return read_archive(spark, source.where)
    if source.kind == "store":
        if not Path(source.where).is_dir():
            raise ArgumentError(f"{source.where} is not a directory. Name the store directory of a broker.")
        reader = spark.read.format("rocketmq-store").option("includeProperties", "true")
        if selection.topics:
            reader = reader.option("topics", ",".join(selection.topics))
        return reader.load(str(Path(source.where).absolute()))
    client = ClusterClient(parse_cluster(cluster))
    require_queues(client, [source.where])
    options = {"subscribe": source.where, "includeProperties": "true"}
    return spark.read.format("rocketmq").options(**cluster, **options).load()


def select_rows(frame: DataFrame, selection: Selection) -> DataFrame:
    try:
        for condition in selection.conditions():
            frame = frame.where(condition)
    except AnalysisException as error:
        reason = str(error).strip().split("\n", 1)[0]
        raise ArgumentError(f"The condition '{selection.where}' does not fit the columns of messages: {reason}") from error
    return frame.select(*COLUMNS)


def count_by_queue(frame: DataFrame) -> dict[Queue, int]:
    rows = frame.groupBy(*_QUEUE_COLUMNS).count().collect()
    return {Queue(row["topic"], row["broker"], row["queueId"]): row["count"] for row in rows}


# --- the target


def open_retry_topic(cluster: Mapping[str, str], group: str, *, create: bool) -> str:
    """Return the retry topic of a group. `create` makes it if no member was ever connected: brokers make it for the first one."""
    topic = retry_topic(group)
    options = parse_cluster(cluster)
    with Admin(options=options.client_options()) as admin:
        settings = admin.groups.get(group)
        if create and not ClusterClient(options).queues([topic])[topic]:
            queues = max(1, *(one.retry_queues for one in settings))
            admin.topics.create(topic, queues=queues, brokers=[one.broker_name for one in settings])
    return topic


def find_targets(cluster: Mapping[str, str], sources: Mapping[Queue, int], to: str | None) -> dict[str, list[Queue]]:
    """Return the writable queues of each target topic. A topic that does not exist is an error: its queues are to be chosen."""
    options = parse_cluster(cluster)
    topics = sorted(set(target_topics(sources, to).values()))
    require_queues(ClusterClient(options), topics)
    with Producer(options=options.client_options(), group=GROUP) as producer:
        return {topic: producer.queues(topic) for topic in topics}


def _send(spark: SparkSession, frame: DataFrame, parts: list[list[Queue]], task: ReplayTask) -> DataFrame:
    """Give each part of the queues to one task, and return the rows that the tasks return."""
    slots = _slots(spark, len(parts))
    schema = StructType(
        [
            StructField("topic", StringType()),
            StructField("broker", StringType()),
            StructField("queueId", IntegerType()),
            StructField("slot", LongType()),
        ]
    )
    rows = [(*queue, slot) for slot, part in zip(slots, parts, strict=True) for queue in part]
    placed = frame.join(sql.broadcast(spark.createDataFrame(rows, schema)), list(_QUEUE_COLUMNS))
    ordered = placed.repartition(len(parts), "slot").sortWithinPartitions(*_QUEUE_COLUMNS, "queueOffset")

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return task.run(batches)

    with warnings.catch_warnings():
        # Spark looks for pandas before it takes a function over Arrow batches, and warns of version 3. No data passes through it.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return ordered.select(*COLUMNS).mapInArrow(run, SENT_ROW)


def _slots(spark: SparkSession, count: int) -> list[int]:
    """Return a number for each of `count` partitions that Spark's hash puts into that partition, and no two into one."""
    found: dict[int, int] = {}
    for row in spark.range(count * _SLOTS_SEARCHED).selectExpr("id", f"pmod(hash(id), {count}) AS part").collect():
        found.setdefault(row.part, row.id)
    assert len(found) == count, "the search was too short"
    return [found[part] for part in range(count)]
