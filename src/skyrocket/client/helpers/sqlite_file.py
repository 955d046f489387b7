"""A small SQLite file. The threads of a process share one connection; processes share the file through SQLite's locks.

Committed data survives the death of the process. A power cut may lose the last transactions.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from skyrocket.client.errors import ClientError

BUSY_S: Final = 5.0  # how long to wait for another process's transaction


class SqliteFileError(ClientError):
    """SQLite cannot use the file."""


class SqliteFile:
    """A SQLite file with a schema, used through transactions."""

    def __init__(self, path: str | Path, schema: str) -> None:
        self._path = str(path)
        self._lock = threading.Lock()  # one connection, used by one thread at a time
        with self._translate_errors():
            self._connection = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.executescript(schema)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the body in an exclusive write transaction; roll back when the body raises."""
        with self._lock, self._translate_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise SqliteFileError(f"SQLite cannot use the file {self._path}: {error}.") from error
