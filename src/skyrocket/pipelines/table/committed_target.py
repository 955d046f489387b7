"""A table whose batches are published by a commit to the log of a table format: what Delta and Iceberg have in common.

    add waiting and rejected ones  ─►  commit rows and offsets  ─►  remove what no longer waits
                                       the batch is published

What was added before a crash is added again by the next run, which changes nothing. What was not removed is removed by it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.pipelines.errors import TargetError
from skyrocket.pipelines.file_lock import take_lock
from skyrocket.pipelines.table.changes import table_schema
from skyrocket.pipelines.table.fold import Held
from skyrocket.pipelines.table.target import TableBatch, TableDescription, WaitingChange, WaitingKey, waiting_keys

Part = Literal["", "waiting", "rejects"]  # of a table; "" has the rows
WAITING_ID: Final = ("_key", "_version")
CHANGE_ID: Final = (*WAITING_ID, "_digest")


class CommittedTarget(ABC):
    name: str
    refuses_nul = False

    def __init__(self) -> None:
        self._description: TableDescription | None = None
        self._lock_file: int | None = None

    # --- description and lock

    def _hold_lock(self, path: Path, wait_s: float) -> None:
        self._lock_file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not take_lock(self._lock_file, wait_s):
            raise TargetError(f"Another job is writing to {self.name}. Wait until it has ended.")

    def load(self) -> TableDescription | None:
        self._description = self._read_description()
        if self._description is not None and self._lock_file is not None:
            self._make_tables(self._description)  # a run that was killed may have made some of them
            self._remove_stale()
        return self._description

    @abstractmethod
    def _read_description(self) -> TableDescription | None:
        """Return the description of an existing table; None if there is none. Raise TargetError if it is something else."""

    @abstractmethod
    def _make_tables(self, description: TableDescription) -> None:
        """Make those parts of the table that do not exist."""

    def _remove_stale(self) -> None:
        """Remove waiting changes that have been applied: a run was killed before it could do so."""
        waiting = self._read("waiting", CHANGE_ID)
        if waiting.num_rows:
            held = self.read_held(pc.unique(waiting.column("_key")).to_pylist())
            rows = zip(*(column.to_pylist() for column in waiting.columns), strict=True)
            self._settle([WaitingChange(*row) for row in rows if row[0] in held and row[1] <= held[row[0]].version])

    def close(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    # --- reading

    @abstractmethod
    def _read(self, part: Part, columns: Sequence[str], keys: Sequence[str] | None = None) -> Any:
        """Read columns of a part in the order in which they are named; with `keys`, only rows that have one of them."""

    def _schema(self) -> Any:
        assert self._description is not None
        return table_schema(self._description.columns)

    def read_held(self, keys: Sequence[str]) -> dict[str, Held]:
        rows = zip(*(column.to_pylist() for column in self._read("", CHANGE_ID, keys).columns), strict=True)
        return {key: Held(version, digest) for key, version, digest in rows}

    def read_waiting(self, keys: Sequence[str]) -> Any:
        schema = self._schema()
        return self._read("waiting", schema.names, keys).cast(schema)

    def waiting_count(self) -> int:
        return int(self._read("waiting", ["_version"]).num_rows)

    def waiting_keys(self, most: int) -> list[WaitingKey]:
        found = self._read("waiting", WAITING_ID)
        keys, versions = (found.column(name).to_pylist() for name in WAITING_ID)
        return waiting_keys(keys, versions, self.read_held(sorted(set(keys))[:most]), most)

    # --- writing

    def commit(self, batch: TableBatch) -> None:
        if batch.waiting.num_rows:
            self._add_waiting(batch)
        if batch.rejects.num_rows:
            self._add_rejects(batch)
        self._publish(batch)
        self._description = batch.description
        self._settle(batch.settled)

    @abstractmethod
    def _add_waiting(self, batch: TableBatch) -> None: ...

    @abstractmethod
    def _add_rejects(self, batch: TableBatch) -> None: ...

    @abstractmethod
    def _publish(self, batch: TableBatch) -> None:
        """Commit rows and offsets. Raise TargetError if the offsets are not where they were when the batch was planned."""

    @abstractmethod
    def _settle(self, settled: Sequence[WaitingChange]) -> None:
        """Remove changes that no longer wait, if there are any."""
