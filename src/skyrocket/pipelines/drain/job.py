"""The drain job: archives what waits for a group, and moves the group past exactly that.

    drain_group(spark, "coupons", ["orders"], "/mnt/drained", cluster={"nameserver": "127.0.0.1:9876"})

    record the ranges ─► archive them ─► count them in the files ─► resend what was not selected ─► move the group ─► record it

Each step can be repeated, and the group is moved last: whenever the job dies, every message is waiting for the group, or in the
archive, or in both. The same call again continues.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from skyrocket.client.consumer.subscription import SQL92
from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin
from skyrocket.durable_file import make_directory
from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.coverage import QUEUE_COLUMNS, find_problems
from skyrocket.pipelines.archive.job import BATCH_MESSAGES, COMPRESSIONS, archive_ranges, queue_bounds
from skyrocket.pipelines.archive.job import check_arguments as check_archive_arguments
from skyrocket.pipelines.archive.last_messages import check_ids, is_there
from skyrocket.pipelines.archive.plan import PlanWords, is_pattern
from skyrocket.pipelines.archive.reading import archive_schema, read_archive
from skyrocket.pipelines.archive.single_messages import read_ids
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.current_user import current_user
from skyrocket.pipelines.drain.drain_record import (
    KEPT_OPTIONS,
    LOCK,
    RESENT,
    DrainedQueue,
    DrainRecord,
    check_same,
    read_record,
    write_record,
)
from skyrocket.pipelines.drain.moving import move_group, read_committed
from skyrocket.pipelines.drain.plan import Conditions, plan_ranges, select_condition, subscribe_condition
from skyrocket.pipelines.errors import ArgumentError, DrainError
from skyrocket.pipelines.file_lock import take_lock
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.replay.job import ReplaySource, replay_messages, select_rows
from skyrocket.pipelines.replay.selection import Selection
from skyrocket.protocol.system_names import RETRY_PREFIX
from skyrocket.spark.cluster.cluster_client import ClusterClient

PROBLEMS_NAMED: Final = 3
WORDS: Final = PlanWords("The drain", "archived", "The group was not moved. Drain to a new folder.")


def drain_group(
    spark: SparkSession,
    group: str,
    topics: Sequence[str],
    to: str | Path,
    *,
    cluster: Mapping[str, str],
    tags: Sequence[str] = (),
    where: str | None = None,
    subscribed: str | None = None,
    compression: str = COMPRESSIONS[0],
    batch_messages: int = BATCH_MESSAGES,
    on_progress: OnProgress = ignore_progress,
) -> DrainRecord:
    """Drain what waits for the group in these topics now, or continue the drain in this folder. Return its record.

    `tags` and `where` select messages; others that the group subscribes to are sent to its retry topic. `subscribed` is the
    condition of what it subscribes to, for a group without a connected member.
    """
    root = check_arguments(group, topics, to, compression, batch_messages)
    with _drain_lock(root):
        record = plan_drain(group, topics, root, cluster=cluster, tags=tags, where=where, subscribed=subscribed)
        if record.state == "moved":
            return record
        check_condition(spark, record.conditions)
        write_record(root, record)
        if record.state == "planned":
            archive_ranges(
                spark,
                record.ranges,
                root,
                cluster=cluster,
                compression=compression,
                batch_messages=batch_messages,
                on_progress=on_progress,
            )
        count_archived(spark, root, record, on_progress)  # in a continued run, too: files may be lost since
        record.state = "archived"
        write_record(root, record)
        if record.total("resent"):
            resend_others(spark, root, record, cluster, on_progress)
        _move(root, record, cluster, on_progress)
        return record


def plan_drain(
    group: str,
    topics: Sequence[str],
    to: str | Path,
    *,
    cluster: Mapping[str, str],
    tags: Sequence[str] = (),
    where: str | None = None,
    subscribed: str | None = None,
) -> DrainRecord:
    """Return the record of the drain in this folder, or that of a new one. Nothing is written, and Spark is not needed."""
    root = check_arguments(group, topics, to, COMPRESSIONS[0], BATCH_MESSAGES)
    named = sorted(set(topics))
    selected = select_condition(tags, where)
    record = read_record(root)
    if record is not None:
        check_same(root, record, group, named, selected)
        if record.state != "moved":
            check_messages(record, cluster)
        return record
    if ArchiveFolder.open(root) is not None:
        raise ArgumentError(f"{root} is the archive of another job. A drain needs a folder of its own.")
    bounds = queue_bounds(ClusterClient(parse_cluster(cluster)), named)
    with Admin(options=parse_cluster(cluster).client_options()) as admin:
        admin.groups.get(group)
        consumed = set(admin.groups.topics(group))  # in other topics a broker may answer 0 for the group, or nothing
        committed = read_committed(admin, group, [topic for topic in named if topic in consumed])
        ranges = plan_ranges(group, committed, bounds)
        wanted = _ask_subscription(admin, group, named, subscribed)
    last_ids = read_ids(cluster, {queue: stop - 1 for queue, (start, stop) in ranges.items() if start < stop})
    return DrainRecord(
        id=uuid.uuid4().hex[:16],
        group=group,
        cluster={name: cluster[name] for name in KEPT_OPTIONS if name in cluster},
        topics=named,
        selected=selected,
        subscribed=wanted,
        by=current_user(),
        began=_now(),
        queues=[
            DrainedQueue(
                topic=queue.topic,
                broker=queue.broker_name,
                queue_id=queue.queue_id,
                start=start,
                stop=stop,
                last_id=last_ids.get(queue, ""),
            )
            for queue, (start, stop) in ranges.items()
        ],
    )


def check_messages(record: DrainRecord, cluster: Mapping[str, str]) -> None:
    """Raise MissingMessagesError if the topics have other messages than when the drain was planned.

    A queue that is shorter now is told of when the group is to be moved.
    """
    bounds = queue_bounds(ClusterClient(parse_cluster(cluster)), record.topics)
    known = [one for one in record.last_messages if is_there(one, bounds)]
    check_ids(known, read_ids(cluster, {one.queue: one.offset for one in known}), WORDS)


def _ask_subscription(admin: Admin, group: str, topics: list[str], given: str | None) -> str:
    """Return the condition of what the group subscribes to: the given one, or what its members say."""
    members = admin.groups.members(group)
    if members.is_broadcasting:
        raise ArgumentError(f"Group '{group}' broadcasts: each member keeps its own offsets, so no broker can move it.")
    if given is not None:
        return given
    retry = {topic: "*" for topic in topics if topic.startswith(RETRY_PREFIX)}
    by_sql = [topic for topic, kind in members.subscription_types.items() if kind == SQL92]
    return subscribe_condition(topics, {**members.subscriptions, **retry}, by_sql)


def check_arguments(group: str, topics: Sequence[str], to: str | Path, compression: str, batch_messages: int) -> Path:
    """Return the archive's folder. Raise ArgumentError for an argument that cannot work, before Spark starts."""
    if not group:
        raise ArgumentError("No group is given. Name the consumer group whose backlog is to be drained.")
    for topic in topics:
        if is_pattern(topic):
            raise ArgumentError(f"'{topic}' is a pattern. Name each topic that is to be drained.")
    return check_archive_arguments(topics, to, "parquet", compression, batch_messages)


def check_condition(spark: SparkSession, conditions: Conditions) -> None:
    """Raise ArgumentError if Spark does not understand the conditions, before a message is archived."""
    empty = spark.createDataFrame([], archive_schema())
    select_rows(empty, Selection(where=f"({conditions.selected}) AND ({conditions.subscribed})"))


@contextmanager
def _drain_lock(root: Path) -> Iterator[None]:
    """Hold the lock of a drain, which ends with the process."""
    ArchiveFolder.open(root)  # refuse a folder of something else before the lock makes a file in it
    path = root / LOCK
    make_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        if not take_lock(descriptor):
            raise DrainError(f"Another job drains to {root} now. Wait until it has ended.")
        yield
    finally:
        os.close(descriptor)


# --- the steps


def count_archived(spark: SparkSession, root: Path, record: DrainRecord, on_progress: OnProgress = ignore_progress) -> None:
    """Count the messages in the files. Raise DrainError unless each drained offset is there exactly once."""
    on_progress(JobProgress("counting"))
    frame = read_archive(spark, root)
    problems = find_problems(frame, record.ranges)
    if problems:
        named = " ".join(map(str, problems[:PROBLEMS_NAMED]))
        raise DrainError(f"The archive {root} is not whole, so group '{record.group}' was not moved. {named}")
    counts = count_parts(frame, record.conditions)
    for one in record.queues:
        one.archived, one.selected, one.resent = counts.get(one.queue, (0, 0, 0))


def count_parts(frame: DataFrame, conditions: Conditions) -> dict[Queue, tuple[int, int, int]]:
    """Return for each queue how many messages there are, how many a replay brings back, and how many are resent at once."""
    rows = frame.groupBy(*QUEUE_COLUMNS).agg(
        sql.count("*").alias("all"),
        sql.count_if(sql.expr(conditions.replayed)).alias("selected"),
        sql.count_if(sql.expr("false" if conditions.selects_everything else conditions.resent)).alias("resent"),
    )
    return {
        Queue(row["topic"], row["broker"], row["queueId"]): (row["all"], row["selected"], row["resent"]) for row in rows.collect()
    }


def resend_others(
    spark: SparkSession, root: Path, record: DrainRecord, cluster: Mapping[str, str], on_progress: OnProgress
) -> None:
    """Send what was not selected to the group's retry topic, each once, also across kills."""
    replay_messages(
        spark,
        ReplaySource("archive", str(root)),
        to_group=record.group,
        cluster=cluster,
        selection=Selection(where=record.conditions.resent),
        progress=root / RESENT,
        on_progress=on_progress,
    )


def _move(root: Path, record: DrainRecord, cluster: Mapping[str, str], on_progress: OnProgress) -> None:
    on_progress(JobProgress("moving the group", unit="queues"))
    check_messages(record, cluster)
    with Admin(options=parse_cluster(cluster).client_options()) as admin:
        before = move_group(admin, record.group, record.ranges)
    for one in record.queues:
        one.passed_by = before[one.queue]
    record.state, record.moved = "moved", _now()
    write_record(root, record)
    on_progress(JobProgress("drained", record.waiting, record.waiting))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
