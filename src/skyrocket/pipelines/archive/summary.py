"""What a run of the archive did, or would do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord, LostMessages
from skyrocket.pipelines.archive.expiry import is_near_expiry
from skyrocket.pipelines.json_columns.drift import DriftCounter
from skyrocket.pipelines.json_columns.json_schema import JsonColumns


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
