"""Versions in a SQLite file: for the processes of one machine, and across restarts. One row for each key, never deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from skyrocket.client.helpers.sqlite_file import SqliteFile

_SCHEMA: Final = "CREATE TABLE IF NOT EXISTS versions (key TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID"
_FIND: Final = "SELECT version FROM versions WHERE key = ?"
_RECORD: Final = """
INSERT INTO versions VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET version = excluded.version WHERE excluded.version > versions.version
"""

_INSERT: Final = "INSERT INTO versions VALUES (?, ?) ON CONFLICT (key) DO NOTHING"
_SWAP: Final = "UPDATE versions SET version = ? WHERE key = ? AND version = ?"


class SqliteVersions:
    """A store of versions in a SQLite file."""

    blocks = True

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(path, _SCHEMA)

    def close(self) -> None:
        self._file.close()

    def newest(self, key: str) -> int | None:
        with self._file.transaction() as connection:
            found = connection.execute(_FIND, (key,)).fetchone()
        return None if found is None else int(found[0])

    def record(self, key: str, version: int) -> None:
        with self._file.transaction() as connection:
            connection.execute(_RECORD, (key, version))

    def swap(self, key: str, version: int, expected: int | None) -> bool:
        with self._file.transaction() as connection:
            if expected is None:
                return connection.execute(_INSERT, (key, version)).rowcount == 1
            return connection.execute(_SWAP, (version, key, expected)).rowcount == 1
