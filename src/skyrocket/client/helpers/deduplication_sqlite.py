"""Claims in a SQLite file: for the processes of one machine, and across restarts.

    claims   key TEXT PRIMARY KEY, token TEXT, until_ms INTEGER       the token is empty when the key is done

Each claim deletes a few expired keys, so the file holds about the keys of one window.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from skyrocket.client.helpers.deduplication import ClaimState
from skyrocket.client.helpers.sqlite_file import SqliteFile

DELETED_PER_CLAIM: Final = 10  # expired keys; a claim adds one, so a backlog of expired keys shrinks

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, token TEXT NOT NULL, until_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS claims_until ON claims (until_ms);
"""
_DELETE_EXPIRED: Final = "DELETE FROM claims WHERE key IN (SELECT key FROM claims WHERE until_ms <= ? ORDER BY until_ms LIMIT ?)"
_FIND: Final = "SELECT token FROM claims WHERE key = ? AND until_ms > ?"
_CLAIM: Final = "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)"
_COMPLETE: Final = """
INSERT INTO claims VALUES (:key, '', :until_ms)
ON CONFLICT (key) DO UPDATE SET token = '', until_ms = :until_ms WHERE token = :token
"""
_RELEASE: Final = "DELETE FROM claims WHERE key = ? AND token = ?"


class SqliteClaims:
    """A store of claims in a SQLite file."""

    blocks = True

    def __init__(self, path: str | Path, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms or _wall_ms
        self._file = SqliteFile(path, _SCHEMA)

    def close(self) -> None:
        self._file.close()

    def __len__(self) -> int:
        with self._file.transaction() as connection:
            return int(connection.execute("SELECT count(*) FROM claims").fetchone()[0])

    def claim(self, key: str, token: str, claim_ms: int) -> ClaimState:
        now_ms = self._now_ms()
        with self._file.transaction() as connection:
            connection.execute(_DELETE_EXPIRED, (now_ms, DELETED_PER_CLAIM))
            found = connection.execute(_FIND, (key, now_ms)).fetchone()
            if found is not None:
                return ClaimState.IN_PROGRESS if found[0] else ClaimState.DONE
            connection.execute(_CLAIM, (key, token, now_ms + claim_ms))
            return ClaimState.FIRST

    def complete(self, key: str, token: str, window_ms: int) -> bool:
        values = {"key": key, "token": token, "until_ms": self._now_ms() + window_ms}
        with self._file.transaction() as connection:
            return connection.execute(_COMPLETE, values).rowcount == 1

    def release(self, key: str, token: str) -> bool:
        with self._file.transaction() as connection:
            return connection.execute(_RELEASE, (key, token)).rowcount == 1


def _wall_ms() -> int:
    """Return the wall-clock time, which other processes, and this one after a restart, share."""
    return time.time_ns() // 1_000_000
