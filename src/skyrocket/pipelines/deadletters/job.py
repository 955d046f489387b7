"""The job `deadletters`: triage, export and resend, as functions for programs and for the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skyrocket.client import Admin, Producer
from skyrocket.pipelines.clusters import parse_cluster
from skyrocket.pipelines.current_user import current_user
from skyrocket.pipelines.deadletters.export import check_export, export_letters
from skyrocket.pipelines.deadletters.letters import COLUMNS, DeadLetter, letters_of
from skyrocket.pipelines.deadletters.live import PRODUCER_GROUP, find_letter_topics, resend_stream
from skyrocket.pipelines.deadletters.resend import ResendResult
from skyrocket.pipelines.deadletters.resend_record import LetterCluster
from skyrocket.pipelines.deadletters.selection import LetterSelection
from skyrocket.pipelines.deadletters.triage import Triage
from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.progress import JobProgress, OnProgress, ignore_progress
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.source.batch_reader import BatchReader

PROGRESS_LETTERS: int = 1_000


@dataclass(frozen=True, slots=True)
class LetterTriage:
    """The result of a triage, and the topics that it read."""

    topics: list[str]
    triage: Triage
    read_ms: int


def triage_letters(
    cluster: Mapping[str, str],
    groups: Sequence[str] = (),
    selection: LetterSelection | None = None,
    *,
    cause_properties: tuple[str, ...] = (),
    on_progress: OnProgress = ignore_progress,
) -> LetterTriage:
    """Group the dead letters of some groups, or of all, by cause, topic and age."""
    topics = find_topics(cluster, groups)
    now_ms = time.time_ns() // 1_000_000
    triage = Triage(now_ms, cause_properties)
    for letter in read_letters(cluster, topics, selection):
        triage.add(letter)
        if triage.count % PROGRESS_LETTERS == 0:
            on_progress(JobProgress("reading", triage.count, unit="letters"))
    return LetterTriage(topics, triage, now_ms)


def export_selection(
    cluster: Mapping[str, str], path: Path, groups: Sequence[str] = (), selection: LetterSelection | None = None
) -> int:
    """Write the chosen letters to a file, and return how many there are."""
    check_export(path)
    return export_letters(read_letters(cluster, find_topics(cluster, groups), selection), path)


def resend_letters(
    cluster: Mapping[str, str],
    groups: Sequence[str],
    selection: LetterSelection,
    record: Path,
    *,
    by: str | None = None,
    on_progress: OnProgress = ignore_progress,
) -> ResendResult:
    """Send the chosen letters of these groups to their original topics, except those that the record has."""
    if not groups:
        raise ArgumentError("A resend needs the group whose dead letters it sends. Name it.")
    topics = find_topics(cluster, groups)
    letters = read_letters(cluster, topics, selection)
    return asyncio.run(_resend(cluster, letters, record, by or current_user(), on_progress))


async def _resend(
    cluster: Mapping[str, str], letters: Iterable[DeadLetter], record_path: Path, by: str, on_progress: OnProgress
) -> ResendResult:
    options = parse_cluster(cluster).client_options()
    async with Admin(options=options) as admin, Producer(options=options, group=PRODUCER_GROUP) as producer:
        return await resend_stream(admin, producer, letters, record_path, by, on_progress, cluster=LetterCluster.of(options))


def read_letters(
    cluster: Mapping[str, str], topics: Sequence[str], selection: LetterSelection | None = None
) -> Iterator[DeadLetter]:
    """Read the letters that the topics have now, queue by queue, one batch in memory at a time.

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
        for batch in reader.read(part):
            for letter in letters_of(batch, cluster.get("namespace", "")):
                if chosen.chooses(letter):
                    yield letter


def find_topics(cluster: Mapping[str, str], groups: Sequence[str]) -> list[str]:
    """Return the dead-letter topics of these groups, or of all."""

    async def ask() -> list[str]:
        async with Admin(options=parse_cluster(cluster).client_options()) as admin:
            return await find_letter_topics(admin, groups)

    return asyncio.run(ask())
