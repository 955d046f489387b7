"""The targets of the job `table` for tests: how to open each, and what is in it, in one form for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import psycopg

from skyrocket.pipelines.iceberg_catalog import close_catalog, open_catalog
from skyrocket.pipelines.table.target import TableTarget
from skyrocket.pipelines.table.targets import open_target
from tests.support.pipelines.change_histories import TOPIC

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """A place for one table. `read` returns the rows of a part: "" (the table), "waiting" or "rejects"."""

    to: str
    table: str | None
    read: Callable[[str], Rows]

    def open(self) -> TableTarget:
        return open_target(self.to, self.table, TOPIC)

    def state(self) -> dict[str, tuple[int, str | None]]:
        """Version and name of each key; deleted ones have no name."""
        return {row["_key"]: (row["_version"], row["name"]) for row in self.read("")}

    def waiting(self) -> set[tuple[str, int]]:
        return {(row["_key"], row["_version"]) for row in self.read("waiting")}


@contextmanager
def locked(place: Place) -> Iterator[TableTarget]:
    target = place.open()
    try:
        target.lock()
        yield target
    finally:
        target.close()


def postgresql_place(address: str, table: str) -> Place:
    def read(part: str) -> Rows:
        with psycopg.connect(address, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(f'select * from "{table}{"_" if part else ""}{part}"').fetchall()

    return Place(f"postgresql:{address}", table, read)


def iceberg_place(folder: Path, table: str) -> Place:
    def read(part: str) -> Rows:
        catalog = open_catalog(folder, create=False)
        try:
            return catalog.load_table(("skyrocket", f"{table}{'_' if part else ''}{part}")).scan().to_arrow().to_pylist()
        finally:
            close_catalog(catalog)

    return Place(f"iceberg:{folder}", table, read)


def delta_place(folder: Path) -> Place:
    def read(part: str) -> Rows:
        path = folder / "_skyrocket" / part if part else folder
        return deltalake.DeltaTable(str(path)).to_pyarrow_dataset().to_table().to_pylist()

    return Place(f"delta:{folder}", None, read)
