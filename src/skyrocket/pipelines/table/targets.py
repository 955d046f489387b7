"""The targets of the job `table` by name.

postgresql://user@host/database     PostgreSQL, by a URL of libpq
postgresql:host=… dbname=…          the same, by key=value words
delta:FOLDER                        a Delta table
iceberg:FOLDER                      an Iceberg table, in the catalog of that folder
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.table.target import TableTarget

_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9_]+")

# Each target needs a package of its own, so its module is imported when it is used.


def default_table(topic: str) -> str:
    """Return the name of a topic's table: lower case, with _ for everything that needs quotes in SQL."""
    return _NOT_IN_A_NAME.sub("_", topic.lower()).strip("_") or "changes"


def _open_postgresql(place: str, table: str | None, topic: str) -> TableTarget:
    from skyrocket.pipelines.table.postgresql_table import PostgresqlTable  # noqa: PLC0415

    return PostgresqlTable(f"postgresql:{place}" if place.startswith("//") else place, table or default_table(topic))


def _open_delta(place: str, table: str | None, _topic: str) -> TableTarget:
    from skyrocket.pipelines.table.delta_table import DeltaTableTarget  # noqa: PLC0415

    if table is not None:
        raise ArgumentError("--table is for PostgreSQL and Iceberg. A Delta table is its folder: delta:FOLDER.")
    return DeltaTableTarget(_folder(place))


def _open_iceberg(place: str, table: str | None, topic: str) -> TableTarget:
    from skyrocket.pipelines.table.iceberg_table import IcebergTable  # noqa: PLC0415

    return IcebergTable(_folder(place), table or default_table(topic))


def _folder(place: str) -> Path:
    if "://" in place:
        raise ArgumentError(f"'{place}' is a URL. The target is a folder in a file system.")
    return Path(place).absolute()


_TARGETS: Final[dict[str, Callable[[str, str | None, str], TableTarget]]] = {
    "postgresql": _open_postgresql,
    "delta": _open_delta,
    "iceberg": _open_iceberg,
}


def check_target(to: str) -> tuple[str, str]:
    """Return kind and place of a target. Raise ArgumentError for one that does not exist."""
    kind, colon, place = to.partition(":")
    if not colon or kind not in _TARGETS or not place:
        names = ", ".join(f"{name}:…" for name in _TARGETS)
        raise ArgumentError(f"The target is '{kind if colon else to}'. It must be one of {names}.")
    return kind, place


def open_target(to: str, table: str | None, topic: str) -> TableTarget:
    """Open a target. The caller closes it. Without a name, the table has that of the topic."""
    kind, place = check_target(to)
    return _TARGETS[kind](place, table, topic)
