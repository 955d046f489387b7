"""Compares an archive with the topics that it was made of: each offset exactly once, with the same id and body.

What the brokers have deleted in the meantime cannot be compared any more; that the archive has each of those offsets once can.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import BatchRecord
from skyrocket.pipelines.archive.coverage import QUEUE_COLUMNS, QueueRows, count_rows, find_problems
from skyrocket.pipelines.archive.job import open_table, queue_bounds
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.archive.reading import read_archive
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress
from skyrocket.pipelines.task_progress import share_of, watching_tasks
from skyrocket.pipelines.verify.result import VerifyResult
from skyrocket.report.texts import count_of
from skyrocket.spark.cluster.cluster_client import ClusterClient
from skyrocket.spark.options.offset_json import offsets_json

NAMED_MAX: Final = 100  # differing messages that are named
GAPS_NAMED: Final = 20
_PLACE: Final = (*QUEUE_COLUMNS, "queueOffset")


def check_archive(
    spark: SparkSession, folder: str | Path, topics: Sequence[str], cluster: Mapping[str, str], on_progress: OnProgress
) -> VerifyResult:
    """Verify an archive in itself, and against those of its offsets that the topics still have."""
    root = Path(folder).absolute()
    last = _read_last(root)
    progress = _offsets_of(root, last, topics)
    on_progress(JobProgress("counting the archive"))
    frame = read_archive(spark, root).where(sql.col("topic").isin(sorted({queue.topic for queue in progress})))
    result = VerifyResult("archive", str(root))
    with watching_tasks(
        spark, lambda done, tasks: JobProgress("counting the archive", done, tasks or None, "tasks"), on_progress
    ):
        counted = count_rows(frame)
    ranges, unknown = expected_ranges(progress, {} if last is None else last.first_offsets, counted)
    gaps = known_gaps(last, progress)
    result.add_problems([str(problem) for problem in find_problems(frame, ranges, gaps, counted)])
    bounds = queue_bounds(ClusterClient(parse_cluster(cluster)), sorted({queue.topic for queue in progress}))
    common = common_ranges(ranges, bounds)
    result.counts = {
        "messages": sum(one.rows for one in counted.values()),
        "queues": len(progress),
        "compared with the topic": sum(last - first for first, last in common.values()),
    }
    result.remarks += remark_gaps(gaps)
    if unknown:
        result.remarks.append(
            f"An older program began to archive {count_of(unknown, 'queue')}, and did not record where: the lowest offset that "
            "is there counts as the first."
        )
    _remark(result, ranges, bounds)
    if common:
        whole = JobProgress("comparing with the topics", 0, result.counts["compared with the topic"])
        total = whole.total or 0
        on_progress(whole)
        with watching_tasks(spark, lambda done, tasks: whole._replace(done=share_of(total, done, tasks)), on_progress):
            result.add_problems(_find_differences(frame, read_topics(spark, cluster, common), common))
        on_progress(whole._replace(done=total))
    return result


def _read_last(root: Path) -> BatchRecord | None:
    if ArchiveFolder.open(root) is None:
        raise ArgumentError(f"{root} is not an archive. Make one with: skyrocket pipeline archive TOPIC --to {root}")
    return open_table(root).last()


def read_archived_offsets(root: Path, topics: Sequence[str] = ()) -> dict[Queue, int]:
    """Return up to where each queue was archived, of these topics or of all. Raise ArgumentError for a topic that was not."""
    return _offsets_of(root, _read_last(root), topics)


def _offsets_of(root: Path, last: BatchRecord | None, topics: Sequence[str]) -> dict[Queue, int]:
    progress = {} if last is None else last.progress
    for topic in topics:
        if all(queue.topic != topic for queue in progress):
            raise ArgumentError(f"{root} has nothing of topic '{topic}'.")
    return {queue: stop for queue, stop in progress.items() if not topics or queue.topic in topics}


def expected_ranges(
    ends: Mapping[Queue, int], begins: Mapping[Queue, int], counted: Mapping[Queue, QueueRows]
) -> tuple[dict[Queue, QueueBounds], int]:
    """Return which offsets each queue should have, and of how many queues the archive does not know the first one. Pure.

    What the files have must not decide, or a deleted file would shorten what is expected. Only where an older program has not
    recorded the first offset, the lowest one counts.
    """
    lowest = {queue: counted[queue].first if queue in counted else end for queue, end in ends.items()}
    ranges = {queue: QueueBounds(begins.get(queue, lowest[queue]), end) for queue, end in ends.items()}
    return ranges, sum(queue not in begins for queue in ends)


def known_gaps(last: BatchRecord | None, queues: Container[Queue]) -> dict[Queue, list[QueueBounds]]:
    """Return the offsets of these queues that were lost before they were archived, as the user allowed. Pure."""
    found: dict[Queue, list[QueueBounds]] = {}
    for gap in () if last is None else last.gaps:
        if gap.queue in queues:
            found.setdefault(gap.queue, []).append(QueueBounds(gap.start, gap.stop))
    return found


def remark_gaps(gaps: Mapping[Queue, Sequence[QueueBounds]]) -> list[str]:
    """Name the gaps, and count those that are too many to name. Pure."""
    named = [
        f"{queue}: offsets {first} to {last - 1} were deleted before they were archived (--skip-missing)."
        for queue in sorted(gaps)
        for first, last in gaps[queue]
    ]
    more = len(named) - GAPS_NAMED
    return named if more <= 0 else [*named[:GAPS_NAMED], f"{count_of(more, 'more gap')} of that kind."]


def common_ranges(archived: Mapping[Queue, QueueBounds], existing: Mapping[Queue, QueueBounds]) -> dict[Queue, QueueBounds]:
    """Return the offsets that archive and topic both should have. Pure."""
    found = {}
    for queue, (start, stop) in archived.items():
        first, last = existing.get(queue, QueueBounds(0, 0))
        if max(start, first) < min(stop, last):
            found[queue] = QueueBounds(max(start, first), min(stop, last))
    return found


def _remark(result: VerifyResult, archived: Mapping[Queue, QueueBounds], existing: Mapping[Queue, QueueBounds]) -> None:
    gone = sum(max(0, min(existing[queue].first, stop) - start) for queue, (start, stop) in archived.items() if queue in existing)
    if gone:
        result.remarks.append(f"{gone:,} archived messages are no longer in their topic, so their bodies were not compared.")
    newer = sum(max(0, existing[queue].last - stop) for queue, (_, stop) in archived.items() if queue in existing)
    if newer:
        result.remarks.append(f"{newer:,} messages of the topic are newer than the archive.")
    for queue, (_, stop) in sorted(archived.items()):
        end = existing[queue].last if queue in existing else 0
        if end < stop:
            result.add_problems([f"{queue} ends at {end}, but was archived up to {stop}: it was created again or lost messages."])


def read_topics(spark: SparkSession, cluster: Mapping[str, str], ranges: Mapping[Queue, QueueBounds]) -> DataFrame:
    """Read these offsets from the brokers."""
    options = {
        "subscribe": ",".join(sorted({queue.topic for queue in ranges})),
        "startingOffsets": json.dumps(offsets_json({queue: bounds.first for queue, bounds in ranges.items()})),
        "endingOffsets": json.dumps(offsets_json({queue: bounds.last for queue, bounds in ranges.items()})),
    }
    return spark.read.format("rocketmq").options(**cluster, **options).load()


def _find_differences(archive: DataFrame, topic: DataFrame, ranges: Mapping[Queue, QueueBounds]) -> list[str]:
    spark = archive.sparkSession
    rows = [(*queue, first, last) for queue, (first, last) in ranges.items()]
    bounds = spark.createDataFrame(rows, "topic string, broker string, queueId int, first long, last long")
    archived = archive.join(sql.broadcast(bounds), list(QUEUE_COLUMNS)).where("queueOffset >= first AND queueOffset < last")
    both = _summed(archived, "archived").join(_summed(topic, "stored"), list(_PLACE), "full")
    wrong = both.where("archivedSum IS DISTINCT FROM storedSum OR archivedId IS DISTINCT FROM storedId")
    return [_describe(row.asDict()) for row in wrong.sort(*_PLACE).take(NAMED_MAX)]


def _summed(frame: DataFrame, name: str) -> DataFrame:
    """Return place, id and the checksum of the body of each message."""
    return frame.select(*_PLACE, sql.col("msgId").alias(f"{name}Id"), sql.crc32("body").alias(f"{name}Sum"))


def _describe(row: Mapping[str, object]) -> str:
    place = f"Offset {row['queueOffset']} of {row['topic']}, queue {row['queueId']} at {row['broker']}"
    if row["storedSum"] is None:
        return f"{place} is in the archive, and the topic does not deliver it."
    if row["archivedSum"] is None:
        return f"{place} is in the topic and not in the archive."
    if row["archivedSum"] != row["storedSum"]:
        return f"{place}: the bodies' checksums are {row['archivedSum']} in the archive and {row['storedSum']} in the topic."
    return f"{place}: the message is {row['archivedId']} in the archive and {row['storedId']} in the topic."
