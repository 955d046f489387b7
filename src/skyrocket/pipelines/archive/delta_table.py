"""An archive as a Delta table, written through delta-rs: neither Spark nor a reader needs a jar.

    tasks stage files  ─►  write the batch's record  ─►  rename its files into place  ─►  commit to the Delta log
                                                                                          the batch is published

The commit carries a transaction, `txn`: the archive's id and the batch's number. The log says so which batch is the last one, and
that batch's record has the offsets. A batch without a commit never happened: the next run deletes its files.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord
from skyrocket.pipelines.archive.layout import PARTITIONS, TABLE_COLUMNS
from skyrocket.pipelines.errors import ArchiveError, ArgumentError
from skyrocket.pipelines.json_columns.body_columns import arrow_fields
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.spark.columns import COLUMNS

if TYPE_CHECKING:
    from deltalake import DeltaTable


def table_schema(json_columns: JsonColumns | None = None) -> Any:
    own = [] if json_columns is None else arrow_fields(json_columns)
    return pa.schema([*((name, COLUMNS[name].arrow if name in COLUMNS else pa.string()) for name in TABLE_COLUMNS), *own])


def import_delta() -> Any:
    """Import delta-rs, which only this form of an archive needs."""
    try:
        import deltalake  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "A Delta table needs the package deltalake. Install it with: pip install 'skyrocketmq[pipelines]'"
        ) from error
    return deltalake


class DeltaArchive:
    def __init__(self, folder: ArchiveFolder) -> None:
        self.folder = folder
        self._delta = import_delta()

    def _open(self) -> DeltaTable:
        table: DeltaTable = self._delta.DeltaTable(str(self.folder.root))
        return table

    def _exists(self) -> bool:
        return bool(self._delta.DeltaTable.is_deltatable(str(self.folder.root)))

    def _committed(self, table: DeltaTable) -> int:
        """Return the number of the last batch in the log; 0 if there is none."""
        return table.transaction_version(self.folder.id) or 0

    def last(self) -> BatchRecord | None:
        batch = self._committed(self._open()) if self._exists() else 0
        return self.folder.read_record(batch) if batch else None

    def recover(self) -> None:
        """Create the table if it is new, and remove files of batches that were not committed. Needs the lock."""
        if not self._exists():
            self._delta.DeltaTable.create(
                str(self.folder.root),
                schema=table_schema(self.folder.json_columns),
                partition_by=list(PARTITIONS),
                name="skyrocket archive",
            )
        committed = self._committed(self._open())
        for batch in self.folder.record_numbers():
            if batch > committed:
                self.folder.delete(file.path for file in self.folder.read_record(batch).added)
                self.folder.delete_record(batch)
        self.folder.prepare_staging()

    def publish(self, record: BatchRecord) -> None:
        """Commit the batch. The handle that commits looks for the last batch first: delta-rs alone would take it twice."""
        self.folder.settle_staged(record.added)
        self.folder.write_record(record)
        self.folder.move_into_place(record.added)
        table = self._open()
        committed = self._committed(table)
        if committed != record.batch - 1:
            raise ArchiveError(
                f"The Delta table {self.folder.root} has batch {committed} of this archive, not {record.batch - 1}: another job "
                "writes to it. End one of them and start this one again."
            )
        now_ms = time.time_ns() // 1_000_000
        table.create_write_transaction(
            [self._add_action(file, now_ms) for file in record.added],
            mode="append",
            schema=table.schema(),
            partition_by=list(PARTITIONS),
            commit_properties=self._delta.CommitProperties(
                app_transactions=[self._delta.Transaction(self.folder.id, record.batch)]
            ),
        )
        self.folder.delete_old_records()

    def _add_action(self, file: AddedFile, now_ms: int) -> Any:
        from deltalake.transaction import AddAction  # noqa: PLC0415

        partition = {"topic": file.topic, "hour": file.hour}
        return AddAction(file.path, file.size_bytes, partition, now_ms, True, json.dumps(file_statistics(file)))

    def compact(self) -> dict[str, int]:
        """Merge small files. Return how many files went and came."""
        found = self._open().optimize.compact()
        return {"removed": int(found["numFilesRemoved"]), "added": int(found["numFilesAdded"])}

    def files(self) -> list[str]:
        return [uri.removeprefix("file://") for uri in self._open().file_uris()] if self._exists() else []


def file_statistics(file: AddedFile) -> dict[str, Any]:
    """Return what the Delta log says about a file, with which readers skip files. Pure."""
    first, last = (_iso(ms) for ms in (file.first_ms, file.last_ms + 1))
    return {
        "numRecords": file.rows,
        "minValues": {"storeTimestamp": first},
        "maxValues": {"storeTimestamp": last},
        "nullCount": {},
    }


def _iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
