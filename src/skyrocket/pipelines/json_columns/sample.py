"""The newest messages of topics, from which columns are inferred. They are read in this process, and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from skyrocket.client.queues import Queue
from skyrocket.pipelines.archive.plan import QueueBounds
from skyrocket.pipelines.json_columns.documents import BadBodyError, parse_document
from skyrocket.pipelines.json_columns.json_schema import JsonColumns, infer_columns
from skyrocket.spark.fetch.range_reader import RangeReader
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.partitions import QueuePartition, ranges_between

QUEUE_MESSAGES: Final = 1_000  # of each queue
SAMPLE_MESSAGES: Final = 10_000  # of all queues together
SAMPLE_BYTES: Final = 64 * 1024 * 1024  # of decoded columns


def sample_parts(bounds: Mapping[Queue, QueueBounds]) -> list[QueuePartition]:
    """Return the ranges of the newest messages of each queue. Pure."""
    each = max(1, min(QUEUE_MESSAGES, SAMPLE_MESSAGES // max(1, len(bounds))))
    starts = {queue: max(found.first, found.last - each) for queue, found in bounds.items()}
    return ranges_between(starts, {queue: found.last for queue, found in bounds.items()})


def read_messages(cluster: Mapping[str, str], parts: Sequence[QueuePartition], columns: Sequence[str]) -> Iterator[Any]:
    """Yield messages as batches, with these columns of the Spark source. Those that are deleted meanwhile are left out."""
    for part in parts:
        given = {"subscribe": part.queue.topic, "columns": ",".join(columns), "failOnDataLoss": "false"}
        yield from RangeReader(source_options({**cluster, **given}, "batch"), part, columns).batches()


def take_sample(batches: Iterable[Any]) -> list[Any]:
    """Take batches of messages until they have SAMPLE_BYTES. Pure."""
    taken, size = [], 0
    for batch in batches:
        taken.append(batch)
        size += batch.nbytes
        if size >= SAMPLE_BYTES:
            break
    return taken


def infer_from_messages(batches: Iterable[Any]) -> JsonColumns:
    """Infer columns from the bodies that are JSON objects; the others have no say. Pure."""
    return infer_columns(_documents(batches))


def _documents(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for body in batch.column("body").to_pylist():
            try:
                yield parse_document(body or b"")
            except BadBodyError:
                continue
