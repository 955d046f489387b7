"""An archive as a Delta table, written through delta-rs: neither Spark nor a reader needs a jar.

The commit carries a transaction, `txn`: the archive's id and the batch's number.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import AddedFile, BatchRecord
from skyrocket.pipelines.archive.committed_table import CommittedTable, table_schema
from skyrocket.pipelines.archive.layout import PARTITIONS
from skyrocket.pipelines.errors import ArgumentError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def import_delta() -> Any:
    """Import delta-rs, which only this form of an archive needs."""
    try:
        import deltalake  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "A Delta table needs the package deltalake. Install it with: pip install 'skyrocketmq[pipelines]'"
        ) from error
    return deltalake


class DeltaArchive(CommittedTable):
    kind = "Delta table"

    def __init__(self, folder: ArchiveFolder) -> None:
        super().__init__(folder)
        self._delta = import_delta()

    def _open(self) -> DeltaTable | None:
        root = str(self.folder.root)
        return self._delta.DeltaTable(root) if self._delta.DeltaTable.is_deltatable(root) else None

    def _create(self) -> None:
        self._delta.DeltaTable.create(
            str(self.folder.root),
            schema=table_schema(self.folder.json_columns),
            partition_by=list(PARTITIONS),
            name="skyrocket archive",
        )

    def _read_committed(self, handle: DeltaTable) -> int:
        return handle.transaction_version(self.folder.id) or 0

    def _commit(self, handle: DeltaTable, record: BatchRecord) -> None:
        now_ms = time.time_ns() // 1_000_000
        handle.create_write_transaction(
            [self._add_action(file, now_ms) for file in record.added],
            mode="append",
            schema=handle.schema(),
            partition_by=list(PARTITIONS),
            commit_properties=self._delta.CommitProperties(
                app_transactions=[self._delta.Transaction(self.folder.id, record.batch)]
            ),
        )

    def _add_action(self, file: AddedFile, now_ms: int) -> Any:
        from deltalake.transaction import AddAction  # noqa: PLC0415

        partition = {"topic": file.topic, "hour": file.hour}
        return AddAction(file.path, file.size_bytes, partition, now_ms, True, json.dumps(file_statistics(file)))

    def compact(self, before: str | None = None) -> dict[str, int]:
        """Merge small files, only of hours before `before`. Return how many files went and came."""
        filters = None if before is None else [("hour", "<", before)]
        found = self._delta.DeltaTable(str(self.folder.root)).optimize.compact(partition_filters=filters)
        return {"removed": int(found["numFilesRemoved"]), "added": int(found["numFilesAdded"])}

    def files(self) -> list[str]:
        handle = self._open()
        return [] if handle is None else [uri.removeprefix("file://") for uri in handle.file_uris()]


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
