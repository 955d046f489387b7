"""An archive whose batches are published by a commit to the log of a table format: what Delta and Iceberg have in common.

    tasks stage files  ─►  write the batch's record  ─►  rename its files into place  ─►  commit to the table
                                                                                          the batch is published

The commit has the batch's number, so the table says which batch is the last one, and that batch's record has the offsets. A batch
without a commit never happened: the next run deletes its files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import BatchRecord
from skyrocket.pipelines.archive.layout import TABLE_COLUMNS
from skyrocket.pipelines.errors import ArchiveError
from skyrocket.pipelines.json_columns.body_columns import arrow_fields
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.spark.columns import COLUMNS


def table_schema(json_columns: JsonColumns | None = None) -> Any:
    own = [] if json_columns is None else arrow_fields(json_columns)
    return pa.schema([*((name, COLUMNS[name].arrow if name in COLUMNS else pa.string()) for name in TABLE_COLUMNS), *own])


class CommittedTable(ABC):
    kind: str  # as messages name it

    def __init__(self, folder: ArchiveFolder) -> None:
        self.folder = folder

    @abstractmethod
    def _open(self) -> Any:
        """Return a handle of the table as it is now; None if it has not been created."""

    @abstractmethod
    def _create(self) -> None: ...

    @abstractmethod
    def _read_committed(self, handle: Any) -> int:
        """Return the number of the last committed batch; 0 if there is none."""

    @abstractmethod
    def _commit(self, handle: Any, record: BatchRecord) -> None:
        """Commit the files and the number of a batch. It must fail if the table has changed since it was opened."""

    @abstractmethod
    def files(self) -> list[str]:
        """Return the paths of all published files."""

    def last(self) -> BatchRecord | None:
        handle = self._open()
        batch = 0 if handle is None else self._read_committed(handle)
        return self.folder.read_record(batch) if batch else None

    def recover(self) -> None:
        """Create the table if it is new, and remove files of batches that were not committed. Needs the lock."""
        if self._open() is None:
            self._create()
        committed = self._read_committed(self._open())
        for batch in self.folder.record_numbers():
            if batch > committed:
                self.folder.delete(file.path for file in self.folder.read_record(batch).added)
                self.folder.delete_record(batch)
        self.folder.prepare_staging()

    def publish(self, record: BatchRecord) -> None:
        """Commit the batch. The handle that commits looks for the last batch first, or a batch could be committed twice."""
        self.folder.settle_staged(record.added)
        self.folder.write_record(record)
        self.folder.move_into_place(record.added)
        handle = self._open()
        committed = self._read_committed(handle)
        if committed != record.batch - 1:
            raise ArchiveError(
                f"The {self.kind} {self.folder.root} has batch {committed} of this archive, not {record.batch - 1}: another job "
                "writes to it. End one of them and start this one again."
            )
        self._commit(handle, record)
        self.folder.delete_old_records()
