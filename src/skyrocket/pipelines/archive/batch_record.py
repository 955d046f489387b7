"""What a batch of an archive adds and removes, and the offsets that it reaches: one JSON document. Pure.

Files and offsets are in one document, so they are published together: a run that is killed continues where the last published
batch ends, without a gap or a repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.layout import file_path, merged_path
from skyrocket.pipelines.errors import ArchiveError
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.options.offset_json import OffsetsJson, offsets_json, parse_offsets_json

APPEND: Final = "append"
COMPACT: Final = "compact"


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a task has written. Spark returns it as a row, in this order of columns."""

    name: str  # in the folder of staged files
    topic: str
    hour: str
    broker: str
    queue_id: int
    start: int  # the first offset
    stop: int  # one past the last offset
    rows: int
    size_bytes: int
    first_ms: int  # the earliest and the latest store time
    last_ms: int
    bad_bodies: int = 0  # since the task's file before this one; with JSON columns only
    drift: str = "{}"  # JSON: how often fields left their columns, since then


class AddedFile(msgspec.Struct, frozen=True, kw_only=True):
    staged: str
    path: str  # within the archive
    topic: str
    hour: str
    rows: int
    size_bytes: int
    first_ms: int
    last_ms: int


class LostMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were gone before they could be archived, and that the user allowed to pass over."""

    topic: str
    broker: str
    queue_id: int
    start: int
    stop: int


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    archive_id: str
    batch: int
    kind: str  # APPEND or COMPACT
    offsets: OffsetsJson  # of every queue that was ever archived: one past its last archived message
    added: list[AddedFile] = []
    removed: list[str] = []
    lost: list[LostMessages] = []

    @property
    def progress(self) -> dict[Queue, int]:
        try:
            return parse_offsets_json(self.offsets)
        except OffsetsError as error:
            raise ArchiveError(f"Batch {self.batch} of the archive has been edited: {error}") from error


def append_record(
    archive_id: str, batch: int, offsets: Mapping[Queue, int], files: Sequence[StagedFile], lost: Sequence[LostMessages] = ()
) -> BatchRecord:
    added = [
        _added(file, file_path(file.topic, file.hour, batch, file.broker, file.queue_id, file.start, file.name)) for file in files
    ]
    added.sort(key=lambda file: file.path)
    return BatchRecord(
        archive_id=archive_id, batch=batch, kind=APPEND, offsets=offsets_json(offsets), added=added, lost=list(lost)
    )


def compact_record(
    archive_id: str, batch: int, offsets: Mapping[Queue, int], files: Sequence[StagedFile], removed: Sequence[str]
) -> BatchRecord:
    added = [_added(file, merged_path(file.topic, file.hour, batch, file.name)) for file in files]
    return BatchRecord(
        archive_id=archive_id, batch=batch, kind=COMPACT, offsets=offsets_json(offsets), added=added, removed=list(removed)
    )


def _added(file: StagedFile, path: str) -> AddedFile:
    return AddedFile(
        staged=file.name,
        path=path,
        topic=file.topic,
        hour=file.hour,
        rows=file.rows,
        size_bytes=file.size_bytes,
        first_ms=file.first_ms,
        last_ms=file.last_ms,
    )


def encode_record(record: BatchRecord) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1)


def decode_record(found: bytes, path: object) -> BatchRecord:
    try:
        return msgspec.json.decode(found, type=BatchRecord)
    except msgspec.DecodeError as error:
        raise ArchiveError(f"{path} is not the record of an archive's batch: {error}") from error


def read_row(row: Sequence[Any]) -> StagedFile:
    """Build a staged file from a row of Spark."""
    return StagedFile(**dict(zip(StagedFile.__struct_fields__, row, strict=True)))
