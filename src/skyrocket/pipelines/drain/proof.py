"""Proves that a drain lost nothing: compares its record with the files, the group's offsets, and what was sent again.

    proof = prove_drain(spark, "/mnt/drained", cluster={"nameserver": "127.0.0.1:9876"})
    assert proof.is_sound, proof.problems

Nothing here trusts a counter of the drain: offsets are read from the files, and sent messages are found in their target by the
place in the source that a replay writes into each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from skyrocket.client.sync import Admin
from skyrocket.pipelines.archive.archive_folder import keep_files
from skyrocket.pipelines.archive.coverage import QUEUE_COLUMNS, find_problems
from skyrocket.pipelines.archive.reading import read_archive
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.drain.drain_record import REPLAYED, RESENT, DrainRecord, require_record
from skyrocket.pipelines.drain.moving import read_committed
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.pipelines.replay.origin import REPLAY, REPLAY_FROM
from skyrocket.pipelines.replay.progress_file import read_replay, read_targets
from skyrocket.pipelines.replay.selection import literal

NAMED_MAX: Final = 20  # problems of each check
_PLACE: Final = (*QUEUE_COLUMNS, "queueOffset")


class Check(NamedTuple):
    """One comparison: what was expected, what was found."""

    what: str
    expected: int
    found: int
    problems: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_sound(self) -> bool:
        return not self.problems and self.expected == self.found


@dataclass
class DrainProof:
    folder: str
    record: DrainRecord
    checks: list[Check] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [problem for check in self.checks for problem in check.problems]

    @property
    def is_sound(self) -> bool:
        return all(check.is_sound for check in self.checks)


def prove_drain(
    spark: SparkSession, folder: str | Path, *, cluster: Mapping[str, str], on_progress: OnProgress = ignore_progress
) -> DrainProof:
    """Compare a finished drain with its files, its group, its resend, and its replay if there was one."""
    root = Path(folder).absolute()
    with keep_files(root):
        return _prove(spark, root, require_record(root), cluster, on_progress)


def _prove(
    spark: SparkSession, root: Path, record: DrainRecord, cluster: Mapping[str, str], on_progress: OnProgress
) -> DrainProof:
    proof = DrainProof(str(root), record)
    on_progress(JobProgress("reading the archive"))
    frame = read_archive(spark, root)
    proof.checks += [_check_files(frame, record), _check_group(record, cluster)]
    conditions = record.conditions
    for what, progress, condition, is_needed in (
        (
            "resent to the group",
            RESENT,
            "false" if conditions.selects_everything else conditions.resent,
            record.total("resent") > 0,
        ),
        ("replayed", REPLAYED, conditions.replayed, False),
    ):
        on_progress(JobProgress(f"reading what was {what}"))
        if is_needed or (root / progress).is_dir():
            proof.checks.append(_check_arrivals(spark, what, frame.where(condition), root / progress, cluster))
    return proof


def _check_files(frame: DataFrame, record: DrainRecord) -> Check:
    problems = find_problems(frame, record.ranges)
    return Check("offsets in the files", record.waiting, frame.count(), tuple(map(str, problems[:NAMED_MAX])))


def _check_group(record: DrainRecord, cluster: Mapping[str, str]) -> Check:
    """Compare where the group is now. One that is behind has not been moved, or was set back on purpose."""
    with Admin(options=parse_cluster(cluster).client_options()) as admin:
        committed = read_committed(admin, record.group, record.topics)
    behind = [
        f"Group '{record.group}' is at {committed.get(one.queue)} of {one.queue}, and was to be at {one.stop} or later."
        for one in record.queues
        if one.stop > one.start and (committed.get(one.queue) or 0) < one.stop
    ]
    if record.state != "moved":
        behind.insert(0, f"The drain is not finished: its state is '{record.state}'. Run it again.")
    moved = sum(one.stop > one.start for one in record.queues)
    ahead = sum(one.stop > one.start and (committed.get(one.queue) or 0) >= one.stop for one in record.queues)
    return Check("queues that the group has passed", moved, ahead, tuple(behind[:NAMED_MAX]))


def _check_arrivals(spark: SparkSession, what: str, expected: DataFrame, progress: Path, cluster: Mapping[str, str]) -> Check:
    """Compare the places of the messages that should have been sent with those that the target's messages name."""
    replay_id, topics = read_replay(progress), read_targets(progress)
    count = expected.count()
    if replay_id is None or not topics:
        problems = () if count == 0 else (f"No message was {what}: {progress} has no progress.",)
        return Check(f"messages {what}", count, 0, problems)
    options = {"subscribe": ",".join(topics), "includeProperties": "true", "failOnDataLoss": "false"}
    read = spark.read.format("rocketmq").options(**cluster, **options).load()
    compared = _compare_places(expected, _arrived_places(read, replay_id)).cache()
    try:
        found = compared.where("isExpected AND times > 0").count()
        wrong = compared.where("NOT isExpected OR times != 1").sort(*_PLACE).take(NAMED_MAX)
    finally:
        compared.unpersist()
    named = tuple(_describe(row.asDict(), ", ".join(topics)) for row in wrong)
    return Check(f"messages {what}", count, found, named, f"in {', '.join(topics)}")


def _arrived_places(read: DataFrame, replay_id: str) -> DataFrame:
    """Return how often each place of the source has arrived."""
    parts = sql.split(sql.col("properties")[REPLAY_FROM], " ")
    places = read.where(f"properties[{literal(REPLAY)}] = {literal(replay_id)}").select(
        parts[3].alias("topic"),
        parts[0].alias("broker"),
        parts[1].cast("int").alias("queueId"),
        parts[2].cast("long").alias("queueOffset"),
    )
    return places.groupBy(*_PLACE).agg(sql.count("*").alias("times"))


def _compare_places(expected: DataFrame, arrived: DataFrame) -> DataFrame:
    wanted = expected.select(*_PLACE, sql.lit(True).alias("isExpected"))
    return wanted.join(arrived, list(_PLACE), "full").na.fill({"isExpected": False, "times": 0})


def _describe(row: Mapping[str, object], topics: str) -> str:
    place = f"Offset {row['queueOffset']} of {row['topic']}, queue {row['queueId']} at {row['broker']}"
    if not row["isExpected"]:
        return f"{place} is in {topics}, and was not to be sent."
    if not row["times"]:
        return f"{place} is not in {topics}: it was not sent yet, or the topic has deleted it."
    return f"{place} is in {topics} {row['times']} times."
