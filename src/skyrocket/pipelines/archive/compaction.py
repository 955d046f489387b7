"""Merges the small files of an archive of Parquet files: one plan (pure), and the Spark source whose tasks merge.

A stream publishes small files every few seconds, and a reader pays for each. A merge takes files of one topic and hour, in the
order of their names: batches, then queues, then offsets. A queue's messages stay in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from skyrocket.pipelines.archive.batch_record import StagedFile
from skyrocket.pipelines.archive.files_source import COMPRESSION, FILE_ROW, FOLDER, PLAN
from skyrocket.pipelines.archive.hourly_files import StagedWriter
from skyrocket.pipelines.archive.layout import parse_partition

SMALL_BYTES: Final = 64 * 1024 * 1024  # a file below this is merged with others
TARGET_BYTES: Final = 256 * 1024 * 1024  # a merged file is about this large
ROOT: Final = "root"
_BATCH_ROWS: Final = 4_000


class SizedFile(NamedTuple):
    path: str  # within the archive
    size_bytes: int


def plan_merges(
    files: Iterable[SizedFile], small: int = SMALL_BYTES, target: int = TARGET_BYTES, before: str | None = None
) -> list[list[str]]:
    """Return groups of two or more small files of one folder that become one file each; only of hours before `before`."""
    by_folder: dict[str, list[SizedFile]] = {}
    for file in sorted(files):
        place = parse_partition(file.path)
        if file.size_bytes < small and place is not None and (before is None or place[1] < before):
            by_folder.setdefault(file.path.rpartition("/")[0], []).append(file)
    groups: list[list[str]] = []
    for folder in by_folder.values():
        group: list[str] = []
        size = 0
        for file in folder:
            if group and size + file.size_bytes > target:
                groups.append(group)
                group, size = [], 0
            group.append(file.path)
            size += file.size_bytes
        groups.append(group)
    return [group for group in groups if len(group) > 1]


@dataclass(frozen=True)
class MergePartition(InputPartition):
    paths: tuple[str, ...]


class ArchiveMerge(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rocketmq-archive-merge"

    def schema(self) -> StructType:
        return FILE_ROW

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return ArchiveMergeReader(self.options)


class ArchiveMergeReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._groups = [MergePartition(tuple(group)) for group in json.loads(options[PLAN])]
        self._root, self._folder, self._compression = options[ROOT], options[FOLDER], options[COMPRESSION]

    def partitions(self) -> Sequence[InputPartition]:
        return self._groups

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, MergePartition)
        file = merge(Path(self._root), partition.paths, Path(self._folder), self._compression)
        yield tuple(getattr(file, name) for name in file.__struct_fields__)


def merge(root: Path, paths: Sequence[str], staged: Path, compression: str) -> StagedFile:
    """Write the rows of all files to one staged file, a row group at a time."""
    place = parse_partition(paths[0])
    assert place is not None
    topic, hour = place
    writer: StagedWriter | None = None
    try:
        for path in paths:
            with pq.ParquetFile(root / path) as source:
                if writer is None:
                    writer = StagedWriter(staged, source.schema_arrow, compression)
                for batch in source.iter_batches(_BATCH_ROWS):
                    writer.add(batch)
        assert writer is not None
        size_bytes = writer.close()
    except BaseException:
        if writer is not None:
            writer.discard()
        raise
    return StagedFile(
        name=writer.name,
        topic=topic,
        hour=hour,
        broker="",
        queue_id=0,
        start=0,
        stop=0,
        rows=writer.rows,
        size_bytes=size_bytes,
        first_ms=0,
        last_ms=0,
    )
