"""What a run of the archive did, or would do, and whether it came so late that retention may delete messages first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord, LostMessages
from skyrocket.pipelines.json_columns.drift import DriftCounter
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.report.texts import format_duration

NEAR_SHARE: Final = 0.5  # of the time that brokers keep messages: one failed run later, they may be gone


@dataclass
class TopicCounts:
    messages: int = 0
    files: int = 0
    size_bytes: int = 0

    def add(self, file: AddedFile) -> None:
        self.messages += file.rows
        self.files += 1
        self.size_bytes += file.size_bytes


@dataclass
class ArchiveSummary:
    """What a run did."""

    folder: str
    format: str
    archive_id: str
    batches: int = 0  # published in this run
    last_batch: int = 0  # of the archive
    planned: int = 0  # messages that a dry run would archive
    topics: dict[str, TopicCounts] = field(default_factory=dict)
    hours: dict[str, TopicCounts] = field(default_factory=dict)  # by the hour in which messages were stored
    lost: list[LostMessages] = field(default_factory=list)
    merged: int = 0  # files that a compaction has replaced
    is_put_off: bool = False  # files were not merged, since a job was reading them
    waited_ms: int = 0  # how long the oldest message of a queue that the archive knew before had waited
    reserved_ms: int | None = None  # how long brokers keep messages, the shortest of their times; None: they do not say
    json_columns: JsonColumns | None = None
    bad_bodies: int = 0  # with JSON columns: bodies that have none
    drift: DriftCounter = field(default_factory=DriftCounter)

    @property
    def messages(self) -> int:
        return sum(counts.messages for counts in self.topics.values())

    @property
    def is_late(self) -> bool:
        """Whether the oldest message had waited for so long that the next one may be deleted before it is archived."""
        return is_near_expiry(self.waited_ms, self.reserved_ms)

    def count_wait(self, planned_ms: int, stored_ms: Iterable[int]) -> None:
        """Count messages that were stored then, and were to be archived at `planned_ms`."""
        self.waited_ms = max(self.waited_ms, planned_ms - min(stored_ms, default=planned_ms))

    def add(self, record: BatchRecord) -> None:
        self.batches += 1
        self.last_batch = record.batch
        self.lost += record.lost
        for file in record.added:
            self.topics.setdefault(file.topic, TopicCounts()).add(file)
            self.hours.setdefault(file.hour, TopicCounts()).add(file)


def is_near_expiry(waited_ms: int, reserved_ms: int | None) -> bool:
    """Whether messages that have waited for so long are near their deletion."""
    return reserved_ms is not None and waited_ms >= NEAR_SHARE * reserved_ms


def expiry_sentences(waited_ms: int, reserved_ms: int | None) -> tuple[str, str, str]:
    """Return what is wrong, the evidence, and what to do about messages that are archived late."""
    return (
        "Messages wait too long until they are archived.",
        f"The oldest had waited {format_duration(waited_ms)}; a broker deletes messages after {format_duration(reserved_ms)}.",
        "Run the archive more often or with --follow, or raise fileReservedTime.",
    )
