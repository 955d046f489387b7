"""An archive as an Iceberg table, `skyrocket.messages` in the catalog of its folder, written through PyIceberg.

Files are those that tasks have written, with `topic` and `hour` in them, since Iceberg does not read names of folders. The commit
sets a property of the table to the batch's number: properties outlive snapshots. Iceberg keeps absolute paths, so the folder
cannot be moved.
"""

from __future__ import annotations

from typing import Any, Final

from skyrocket.pipelines.archive.archive_folder import ArchiveFolder
from skyrocket.pipelines.archive.batch_record import BatchRecord
from skyrocket.pipelines.archive.committed_table import CommittedTable, table_schema
from skyrocket.pipelines.archive.layout import PARTITIONS
from skyrocket.pipelines.iceberg_catalog import NAMESPACE, PROPERTIES, one_sentence, open_catalog

TABLE: Final = (NAMESPACE, "messages")
BATCH: Final = "skyrocket.batch"


class IcebergArchive(CommittedTable):
    kind = "Iceberg table"

    def __init__(self, folder: ArchiveFolder) -> None:
        super().__init__(folder)
        self._catalog = open_catalog(folder.root, create=False)

    def _open(self) -> Any:
        catalog = self._catalog
        return catalog.load_table(TABLE) if catalog is not None and catalog.table_exists(TABLE) else None

    def _create(self) -> None:
        self._catalog = open_catalog(self.folder.root, create=True)
        schema = table_schema(self.folder.json_columns)
        creation = self._catalog.create_table_transaction(TABLE, schema=schema, properties=PROPERTIES)
        with creation as transaction, transaction.update_spec() as spec:
            for name in PARTITIONS:
                spec.add_identity(name)

    def _read_committed(self, handle: Any) -> int:
        return int(handle.properties.get(BATCH, "0"))

    def _commit(self, handle: Any, record: BatchRecord) -> None:
        paths = [str(self.folder.root / file.path) for file in record.added]
        with one_sentence(f"The Iceberg table {self.folder.root}"), handle.transaction() as transaction:
            if paths:
                transaction.add_files(paths, check_duplicate_files=False)  # names are unique, and batches are counted
            transaction.set_properties({BATCH: str(record.batch)})

    def files(self) -> list[str]:
        handle = self._open()
        return [] if handle is None else [task.file.file_path for task in handle.scan().plan_files()]
