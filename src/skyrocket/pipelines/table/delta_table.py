"""A Delta table, written through delta-rs: neither Spark nor a reader needs a jar.

    FOLDER/                          the rows, with tombstones (`_deleted`)
    FOLDER/_skyrocket/table.json     the description
    FOLDER/_skyrocket/waiting/       a Delta table: changes that wait for a missing version
    FOLDER/_skyrocket/rejects/       a Delta table: messages that are no changes, with the reason
    FOLDER/_skyrocket/lock           held by the job that writes

A commit of rows carries the offsets: a transaction (`txn`) for each queue, whose version is the offset. Delta keeps the last one
of each for ever.

    add waiting and rejected ones  ─►  commit rows and offsets  ─►  remove what no longer waits
                                       the batch is published

What was added before a crash is added again by the next run, which changes nothing. What was not removed is removed by it.
"""

from __future__ import annotations

import os
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
from skyrocket.pipelines.file_lock import take_lock
from skyrocket.pipelines.table.changes import REJECT_COLUMNS, reject_schema, table_schema
from skyrocket.pipelines.table.fold import Held
from skyrocket.pipelines.table.target import (
    TableBatch,
    TableDescription,
    WaitingChange,
    WaitingKey,
    decode_description,
    waiting_keys,
)
from skyrocket.spark.options.offset_json import queue_key

if TYPE_CHECKING:
    from deltalake import DeltaTable

OWN_FOLDER: Final = "_skyrocket"
LOCK_WAIT_S: Final = 5.0
DESCRIPTION_BYTES_MAX: Final = 1 << 20
_WAITING_ID: Final = ("_key", "_version")
_REJECT_ID: Final = ("_broker", "_queue", "_offset")


class DeltaTableTarget:
    refuses_nul = False

    def __init__(self, folder: Path) -> None:
        self._delta = import_delta()
        self._folder = folder
        self._own = folder / OWN_FOLDER
        self.name = f"Delta table {folder}"
        self._description: TableDescription | None = None
        self._lock_file: int | None = None

    # --- description and lock

    def lock(self) -> None:
        self._refuse_other_folder()
        make_directory(self._own)
        self._lock_file = os.open(self._own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not take_lock(self._lock_file, LOCK_WAIT_S):
            raise TargetError(f"Another job is writing to {self.name}. Wait until it has ended.")

    def _refuse_other_folder(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise TargetError(f"{self._folder} is a file, not a folder.")
        if self._folder.is_dir() and not self._own.exists() and any(self._folder.iterdir()):
            raise TargetError(f"{self._folder} is not empty, and this job did not make it. Choose an empty or a new folder.")
        if (self._own / "archive.json").exists():
            raise TargetError(f"{self._folder} is an archive. Choose another folder.")

    def load(self) -> TableDescription | None:
        self._refuse_other_folder()
        found = read_file(self._own / "table.json", DESCRIPTION_BYTES_MAX)
        if found is None:
            return None
        self._description = decode_description(found, self.name)
        if self._lock_file is not None:
            self._make_tables(self._description)  # a run that was killed may have made some of them
            self._remove_stale()
        return self._description

    def create(self, description: TableDescription) -> None:
        replace_file(self._own / "table.json", msgspec.json.encode(description))
        self._description = description
        self._make_tables(description)

    def _make_tables(self, description: TableDescription) -> None:
        rows = table_schema(description.columns)
        for folder, schema in ((self._folder, rows), (self._own / "waiting", rows), (self._own / "rejects", reject_schema())):
            if not self._exists(folder):
                with self._sentence():
                    self._delta.DeltaTable.create(str(folder), schema=schema, name=f"skyrocket table of {description.topic}")

    def _remove_stale(self) -> None:
        """Remove waiting changes that have been applied: a run was killed before it could do so."""
        waiting = self._read(self._own / "waiting", ["_key", "_version", "_digest"])
        if waiting.num_rows:
            held = self.held(pc.unique(waiting.column("_key")).to_pylist())
            rows = zip(*(column.to_pylist() for column in waiting.columns), strict=True)
            self._settle([WaitingChange(*row) for row in rows if row[0] in held and row[1] <= held[row[0]].version])

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

    def _read(self, folder: Path, columns: list[str] | None = None, keys: Sequence[str] | None = None) -> Any:
        """Read columns of a table; with `keys`, only rows that have one of them, a batch at a time."""
        with self._sentence():
            found = self._open(folder).to_pyarrow_dataset().scanner(columns=columns)
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

    def held(self, keys: Sequence[str]) -> dict[str, Held]:
        found = self._read(self._folder, ["_key", "_version", "_digest"], keys)
        columns = (found.column(name).to_pylist() for name in ("_key", "_version", "_digest"))
        return {key: Held(version, digest) for key, version, digest in zip(*columns, strict=True)}

    def waiting(self, keys: Sequence[str]) -> Any:
        assert self._description is not None
        schema = table_schema(self._description.columns)
        return self._read(self._own / "waiting", schema.names, keys).cast(schema)

    def waiting_count(self) -> int:
        return int(self._read(self._own / "waiting", ["_version"]).num_rows)

    def waiting_keys(self, most: int) -> list[WaitingKey]:
        found = self._read(self._own / "waiting", ["_key", "_version"])
        keys = found.column("_key").to_pylist()
        return waiting_keys(keys, found.column("_version").to_pylist(), self.held(sorted(set(keys))[:most]), most)

    # --- writing

    def commit(self, batch: TableBatch) -> None:
        if batch.waiting.num_rows:
            self._merge(
                self._own / "waiting", batch.waiting, _WAITING_ID
            ).when_matched_update_all().when_not_matched_insert_all().execute()
        if batch.rejects.num_rows:
            rejects = batch.rejects.select(REJECT_COLUMNS)
            self._merge(self._own / "rejects", rejects, _REJECT_ID).when_not_matched_insert_all().execute()
        self._publish(batch)
        self._settle(batch.settled)

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

    def _merge(self, folder: Path, rows: Any, by: Sequence[str]) -> Any:
        return self._merge_into(self._open(folder), rows, by, None)

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
            self._merge(self._own / "waiting", gone, (*_WAITING_ID, "_digest")).when_matched_delete().execute()

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None
