"""The job `deadletters`: triage, export and resend, as functions for programs and for the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from skyrocket.client import Admin, Producer
from skyrocket.client.queues import Queue
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.current_user import current_user
from skyrocket.pipelines.deadletters.export import check_export, export_letters
from skyrocket.pipelines.deadletters.letters import COLUMNS, DeadLetter, letters_of
from skyrocket.pipelines.deadletters.live import PRODUCER_GROUP, find_letter_ends, find_letter_topics, resend_stream
from skyrocket.pipelines.deadletters.resend import ResendResult
from skyrocket.pipelines.deadletters.resend_record import LetterCluster
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.deadletters.triage import Triage
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.source.batch_reader import BatchReader
from skyrocket.spark.source.partitions import QueuePartition

PROGRESS_LETTERS: int = 1_000


@dataclass(frozen=True, slots=True)
class LetterTriage:
    """The result of a triage, the topics that it read, and where their queues ended."""

    topics: list[str]
    triage: Triage
    read_ms: int
    ends: Mapping[Queue, int]


def triage_letters(
    cluster: Mapping[str, str],
    groups: Sequence[str] = (),
    selection: LetterSelection | None = None,
    *,
    cause_properties: tuple[str, ...] = (),
    on_progress: OnProgress = ignore_progress,
) -> LetterTriage:
    """Group the dead letters of some groups, or of all, by cause, topic and age."""
    topics, ends = find_topics(cluster, groups)
    now_ms = time.time_ns() // 1_000_000
    triage = Triage(now_ms, cause_properties)
    for letter in read_letters(cluster, topics, selection, ends):
        triage.add(letter)
        if triage.count % PROGRESS_LETTERS == 0:
            on_progress(JobProgress("reading", triage.count, unit="letters"))
    return LetterTriage(topics, triage, now_ms, ends)


def export_selection(
    cluster: Mapping[str, str], path: Path, groups: Sequence[str] = (), selection: LetterSelection | None = None
) -> int:
    """Write the chosen letters to a file, and return how many there are."""
    check_export(path)
    topics, ends = find_topics(cluster, groups)
    return export_letters(read_letters(cluster, topics, selection, ends), path)


def resend_letters(
    cluster: Mapping[str, str],
    groups: Sequence[str],
    selection: LetterSelection,
    record: Path,
    *,
    by: str | None = None,
    ends: Mapping[Queue, int] | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ResendResult:
    """Send the chosen letters of these groups to their original topics, except those that the record has.

    `ends` are those of a triage: letters that died after it stay. Without them, all go that there are now.
    """
    if not groups:
        raise ArgumentError("A resend needs the group whose dead letters it sends. Name it.")
    topics, ends_now = find_topics(cluster, groups)
    letters = read_letters(cluster, topics, selection, ends_now if ends is None else ends)
    return asyncio.run(_resend(cluster, letters, record, by or current_user(), on_progress))


async def _resend(
    cluster: Mapping[str, str], letters: Iterable[DeadLetter], record_path: Path, by: str, on_progress: OnProgress
) -> ResendResult:
    options = parse_cluster(cluster).client_options()
    async with Admin(options=options) as admin, Producer(options=options, group=PRODUCER_GROUP) as producer:
        return await resend_stream(admin, producer, letters, record_path, by, on_progress, cluster=LetterCluster.of(options))


def read_letters(
    cluster: Mapping[str, str],
    topics: Sequence[str],
    selection: LetterSelection | None = None,
    ends: Mapping[Queue, int] | None = None,
) -> Iterator[DeadLetter]:
    """Read the letters that lie before `ends`, or that the topics have now, queue by queue, one batch in memory at a time.

    The reader of the Spark source does it, in this process: no Spark has to start for it.
    """
    if not topics:
        return
    chosen = selection or LetterSelection()
    options = {**cluster, "subscribe": ",".join(topics), "failOnDataLoss": "false"}
    if chosen.since_ms is not None:
        options |= {"startingTimestamp": str(chosen.since_ms), "startingOffsetsByTimestampStrategy": "latest"}
    reader = BatchReader(options, spark_schema(COLUMNS))
    for part in reader.partitions():
        assert isinstance(part, QueuePartition)
        wanted = part if ends is None else replace(part, stop=min(part.stop, ends.get(part.queue, 0)))
        for batch in reader.read(wanted) if wanted.size > 0 else ():
            for letter in letters_of(batch, cluster.get("namespace", "")):
                if chosen.chooses(letter):
                    yield letter


def find_topics(cluster: Mapping[str, str], groups: Sequence[str]) -> tuple[list[str], dict[Queue, int]]:
    """Return the dead-letter topics of these groups, or of all, and where their queues end now."""

    async def ask() -> tuple[list[str], dict[Queue, int]]:
        async with Admin(options=parse_cluster(cluster).client_options()) as admin:
            topics = await find_letter_topics(admin, groups)
            return topics, await find_letter_ends(admin, topics)

    return asyncio.run(ask())
