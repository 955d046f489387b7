"""A small SQLite file that threads of a process share by one connection, and processes by SQLite's own locks.

What was written survives the death of the process; a power cut may take the last moments.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skyrocket.client.errors import ClientError

BUSY_S: Final = 5.0  # how long another process's transaction is waited for


class SqliteFileError(ClientError):
    """SQLite cannot use the file."""


class SqliteFile:
    def __init__(self, path: str | Path, schema: str) -> None:
        self._path = str(path)
        self._lock = threading.Lock()  # one connection, used by one thread at a time
        with self._refusals():
            self._connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(schema)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Nobody else writes meanwhile. Rolled back when the body raises."""
        with self._lock, self._refusals():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SqliteFileError(f"SQLite refuses to work on {self._path}: {error}.") from error
