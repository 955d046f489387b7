"""A Delta table, written through delta-rs: neither Spark nor a reader needs a jar.

    FOLDER/                          the rows, with tombstones (`_deleted`)
    FOLDER/_skyrocket/table.json     the description
    FOLDER/_skyrocket/waiting/       a Delta table: changes that wait for a missing version
    FOLDER/_skyrocket/rejects/       a Delta table: messages that are no changes, with the reason
    FOLDER/_skyrocket/lock           held by the job that writes

A commit of rows carries the offsets: a transaction (`txn`) for each queue, whose version is the offset. Delta keeps the last one
of each for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.queues import Queue
from skyrocket.durable_file import make_directory, read_file, replace_file
from skyrocket.pipelines.archive.delta_table import import_delta
from skyrocket.pipelines.errors import TargetError
from skyrocket.pipelines.table.changes import REJECT_COLUMNS, reject_schema, table_schema
from skyrocket.pipelines.table.committed_target import CHANGE_ID, WAITING_ID, CommittedTarget, Part
from skyrocket.pipelines.table.target import TableBatch, TableDescription, WaitingChange, decode_description
from skyrocket.spark.options.offset_json import queue_key

if TYPE_CHECKING:
    from deltalake import DeltaTable

OWN_FOLDER: Final = "_skyrocket"
LOCK_WAIT_S: Final = 5.0
DESCRIPTION_BYTES_MAX: Final = 1 << 20
_REJECT_ID: Final = ("_broker", "_queue", "_offset")


class DeltaTableTarget(CommittedTarget):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._delta = import_delta()
        self._folder = folder
        self._own = folder / OWN_FOLDER
        self.name = f"Delta table {folder}"
        self.rejects = str(self._own / "rejects")

    # --- description and lock

    def lock(self) -> None:
        self._refuse_other_folder()
        make_directory(self._own)
        self._hold_lock(self._own / "lock", LOCK_WAIT_S)

    def _refuse_other_folder(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise TargetError(f"{self._folder} is a file, not a folder.")
        if self._folder.is_dir() and not self._own.exists() and any(self._folder.iterdir()):
            raise TargetError(f"{self._folder} is not empty, and this job did not make it. Choose an empty or a new folder.")
        if (self._own / "archive.json").exists():
            raise TargetError(f"{self._folder} is an archive. Choose another folder.")

    def _read_description(self) -> TableDescription | None:
        self._refuse_other_folder()
        found = read_file(self._own / "table.json", DESCRIPTION_BYTES_MAX)
        return None if found is None else decode_description(found, self.name)

    def _write_description(self, description: TableDescription) -> None:
        replace_file(self._own / "table.json", msgspec.json.encode(description))

    def create(self, description: TableDescription) -> None:
        self._write_description(description)
        self._description = description
        self._make_tables(description)

    def _make_tables(self, description: TableDescription) -> None:
        rows = table_schema(description.columns)
        parts: tuple[tuple[Part, Any], ...] = (("", rows), ("waiting", rows), ("rejects", reject_schema()))
        for part, schema in parts:
            folder = self._place(part)
            if not self._exists(folder):
                with self._sentence():
                    self._delta.DeltaTable.create(str(folder), schema=schema, name=f"skyrocket table of {description.topic}")

    def _place(self, part: Part) -> Path:
        return self._own / part if part else self._folder

    @contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except self._delta.exceptions.DeltaError as error:
            raise TargetError(f"{self.name}: {str(error).strip().splitlines()[0]}") from error

    # --- reading

    def _exists(self, folder: Path) -> bool:
        return folder.is_dir() and bool(self._delta.DeltaTable.is_deltatable(str(folder)))

    def _open(self, folder: Path) -> DeltaTable:
        with self._sentence():
            table: DeltaTable = self._delta.DeltaTable(str(folder))
        return table

    def _read(self, part: Part, columns: Sequence[str], keys: Sequence[str] | None = None) -> Any:
        """Read a batch at a time: the table may be far larger than what is taken of it."""
        with self._sentence():
            found = self._open(self._place(part)).to_pyarrow_dataset().scanner(columns=list(columns))
            if keys is None:
                return found.to_table()
            wanted = pa.array(keys, pa.string())
            batches = (batch.filter(pc.is_in(batch.column("_key").cast(pa.string()), wanted)) for batch in found.to_batches())
            return pa.Table.from_batches(batches, found.projected_schema)

    def _txn(self, queue: Queue) -> str:
        assert self._description is not None
        return f"{self._description.id}/{queue_key(queue)}"

    def offsets(self, queues: Sequence[Queue]) -> dict[Queue, int]:
        if not self._exists(self._folder):
            return {}
        table = self._open(self._folder)
        found = {queue: table.transaction_version(self._txn(queue)) for queue in queues}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    # --- writing

    def _add_waiting(self, batch: TableBatch) -> None:
        merge = self._merge("waiting", batch.waiting, WAITING_ID)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _add_rejects(self, batch: TableBatch) -> None:
        rejects = batch.rejects.select(REJECT_COLUMNS)
        self._merge("rejects", rejects, _REJECT_ID).when_not_matched_insert_all().execute()

    def _publish(self, batch: TableBatch) -> None:
        """Commit rows and offsets. The handle that commits looks at the offsets first: delta-rs alone would take them twice."""
        table = self._open(self._folder)
        for queue in batch.stops:
            if table.transaction_version(self._txn(queue)) != batch.before.get(queue):
                raise TargetError(f"{self.name}: another job has read {queue} meanwhile. End one of them.")
        transactions = [self._delta.Transaction(self._txn(queue), stop) for queue, stop in batch.stops.items()]
        properties = self._delta.CommitProperties(app_transactions=transactions)
        with self._sentence():
            if batch.rows.num_rows:
                merge = self._merge_into(table, batch.rows, ("_key",), properties)
                merge.when_matched_update_all("s._version >= t._version").when_not_matched_insert_all().execute()
            else:
                table.create_write_transaction([], mode="append", schema=table.schema(), commit_properties=properties)
        self._write_description(batch.description)  # one that is older than the offsets does no harm

    def _merge(self, part: Part, rows: Any, by: Sequence[str]) -> Any:
        return self._merge_into(self._open(self._place(part)), rows, by, None)

    def _merge_into(self, table: DeltaTable, rows: Any, by: Sequence[str], properties: Any) -> Any:
        predicate = " AND ".join(f"s.{name} = t.{name}" for name in by)
        return table.merge(rows, predicate, source_alias="s", target_alias="t", commit_properties=properties)

    def _settle(self, settled: Sequence[WaitingChange]) -> None:
        if not settled:
            return
        keys, versions, digests = zip(*settled, strict=True)
        gone = pa.table(
            {
                "_key": pa.array(keys, pa.string()),
                "_version": pa.array(versions, pa.int64()),
                "_digest": pa.array(digests, pa.string()),
            }
        )
        with self._sentence():
            self._merge("waiting", gone, CHANGE_ID).when_matched_delete().execute()
