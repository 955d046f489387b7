"""What a batch of an archive adds and removes, and the offsets that it reaches: one JSON document. Pure.

Files and offsets are in one document, so they are published together: a run that is killed continues where the last published
batch ends, without a gap or a repetition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.last_messages import LastMessage, replace_messages
from skyrocket.pipelines.archive.layout import file_path, merged_path
from skyrocket.pipelines.errors import ArchiveError
from skyrocket.spark.errors import OffsetsError
from skyrocket.spark.options.offset_json import OffsetsJson, offsets_json, parse_offsets_json

APPEND: Final = "append"
COMPACT: Final = "compact"
GAPS_MAX: Final = 10_000  # that a record keeps; the first ones are forgotten then


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
    last_id: str = ""  # of the message with the last offset

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker, self.queue_id)


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

    @property
    def queue(self) -> Queue:
        return Queue(self.topic, self.broker, self.queue_id)


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    archive_id: str
    batch: int
    kind: str  # APPEND or COMPACT
    offsets: OffsetsJson  # of every queue that was ever archived: one past its last archived message
    added: list[AddedFile] = []
    removed: list[str] = []
    lost: list[LostMessages] = []  # before this batch, since the one before it
    # What all batches so far have in common. Records of old batches are deleted, so each record has all of it.
    begins: OffsetsJson = {}  # the first archived offset of each queue; without queues that older programs archived
    last_messages: list[LastMessage] = []
    gaps: list[LostMessages] = []  # all that was ever lost, in order

    @property
    def progress(self) -> dict[Queue, int]:
        return self._parse(self.offsets)

    @property
    def first_offsets(self) -> dict[Queue, int]:
        return self._parse(self.begins)

    def _parse(self, offsets: OffsetsJson) -> dict[Queue, int]:
        try:
            return parse_offsets_json(offsets)
        except OffsetsError as error:
            raise ArchiveError(f"Batch {self.batch} of the archive has been edited: {error}") from error


def append_record(
    archive_id: str,
    batch: int,
    offsets: Mapping[Queue, int],
    files: Sequence[StagedFile],
    lost: Sequence[LostMessages] = (),
    *,
    starts: Mapping[Queue, int] | None = None,
    before: BatchRecord | None = None,
) -> BatchRecord:
    """Return the record of a batch that adds files. `starts` are the batch's first offsets, `before` is the last record."""
    known = {} if before is None else before.progress
    begins = {} if before is None else before.first_offsets
    begins |= {queue: start for queue, start in (starts or {}).items() if queue not in known}
    added = [
        _added(file, file_path(file.topic, file.hour, batch, file.broker, file.queue_id, file.start, file.name)) for file in files
    ]
    added.sort(key=lambda file: file.path)
    return BatchRecord(
        archive_id=archive_id,
        batch=batch,
        kind=APPEND,
        offsets=offsets_json(offsets),
        added=added,
        lost=list(lost),
        begins=offsets_json(begins),
        last_messages=replace_messages([] if before is None else before.last_messages, _last_messages(files)),
        gaps=merge_gaps([] if before is None else before.gaps, lost),
    )


def compact_record(
    archive_id: str,
    batch: int,
    offsets: Mapping[Queue, int],
    files: Sequence[StagedFile],
    removed: Sequence[str],
    before: BatchRecord | None = None,
) -> BatchRecord:
    added = [_added(file, merged_path(file.topic, file.hour, batch, file.name)) for file in files]
    return BatchRecord(
        archive_id=archive_id,
        batch=batch,
        kind=COMPACT,
        offsets=offsets_json(offsets),
        added=added,
        removed=list(removed),
        begins={} if before is None else before.begins,
        last_messages=[] if before is None else before.last_messages,
        gaps=[] if before is None else before.gaps,
    )


def _last_messages(files: Sequence[StagedFile]) -> list[LastMessage]:
    """Return the last message of each queue that these files have."""
    last: dict[Queue, StagedFile] = {}
    for file in sorted(files, key=lambda file: file.stop):
        if file.last_id:
            last[file.queue] = file
    return [
        LastMessage(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id, offset=file.stop - 1, id=file.last_id)
        for queue, file in last.items()
    ]


def merge_gaps(known: Sequence[LostMessages], more: Sequence[LostMessages], most: int = GAPS_MAX) -> list[LostMessages]:
    """Return all gaps in the order of queues and offsets; those that touch become one. Of too many, the first ones go."""
    found: list[LostMessages] = []
    for gap in sorted((*known, *more), key=lambda gap: (gap.queue, gap.start)):
        if found and found[-1].queue == gap.queue and found[-1].stop >= gap.start:
            found[-1] = msgspec.structs.replace(found[-1], stop=max(found[-1].stop, gap.stop))
        else:
            found.append(gap)
    return found[-most:]


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
