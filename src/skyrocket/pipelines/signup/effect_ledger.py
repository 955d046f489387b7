"""A service's own database: its effects, each written in one transaction with the claim on its user.

    effects      user, waited_ms          one row for each effect; nothing but the claim keeps a second one out
    deliveries   kind, count              what became of each delivery: served, repeated, failed, refused
    refused      user, attempts           messages that cannot be read
    skyrocket_claims                      of `SqlClaims`

So kill -9 leaves an effect with its claim or neither of both, and a delivery that comes again finds the claim. The service writes
the file, and the job reads it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from skyrocket.client.helpers import SqlClaims
from skyrocket.client.helpers.sqlite_file import SqliteFile

SERVED: Final = "served"
REPEATED: Final = "repeated"  # the effect had happened before
FAILED: Final = "failed"
REFUSED: Final = "refused"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS effects (user TEXT NOT NULL, waited_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS deliveries (kind TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS refused (user TEXT PRIMARY KEY, attempts INTEGER NOT NULL);
"""
_COUNT_DELIVERY: Final = "INSERT INTO deliveries VALUES (?, 1) ON CONFLICT (kind) DO UPDATE SET count = count + 1"
_ADD_EFFECT: Final = "INSERT INTO effects VALUES (?, ?)"
_ADD_REFUSAL: Final = (
    "INSERT INTO refused VALUES (?, ?) ON CONFLICT (user) DO UPDATE SET attempts = max(attempts, excluded.attempts)"
)


class LedgerTotals(NamedTuple):
    """How far a service is."""

    effects: int
    given_up: int  # messages whose last attempt was refused
    deliveries: Counter[str]  # by what became of them


class EffectLedger:
    """The database of one service."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, _SCHEMA)
        self._claims = SqlClaims()
        with self._file.transaction() as connection:
            self._claims.create_table(connection)

    def close(self) -> None:
        self._file.close()

    # --- what the service writes

    def apply(self, user: str, waited_ms: int) -> bool:
        """Do the effect for a user unless it was done before. Returns whether it was done now."""
        with self._file.transaction() as connection:
            is_first = self._claims.first(connection, user)
            if is_first:
                connection.execute(_ADD_EFFECT, (user, waited_ms))
            _count(connection, SERVED if is_first else REPEATED)
        return is_first

    def note_failure(self) -> None:
        """Count an attempt that failed."""
        with self._file.transaction() as connection:
            _count(connection, FAILED)

    def refuse(self, user: str, attempts: int) -> None:
        """Count an attempt at a message that cannot be read: the first, the second and so on."""
        with self._file.transaction() as connection:
            connection.execute(_ADD_REFUSAL, (user, attempts))
            _count(connection, REFUSED)

    # --- what the job reads

    def totals(self, attempts_max: int) -> LedgerTotals:
        """Count what the service has done. A message with `attempts_max` refused attempts is given up."""
        with self._file.transaction() as connection:
            (effects,) = connection.execute("SELECT count(*) FROM effects").fetchone()
            (given_up,) = connection.execute("SELECT count(*) FROM refused WHERE attempts >= ?", (attempts_max,)).fetchone()
            deliveries = Counter(dict(connection.execute("SELECT kind, count FROM deliveries").fetchall()))
        return LedgerTotals(effects, given_up, deliveries)

    def effects(self) -> Counter[str]:
        """Count the effects of each user."""
        with self._file.transaction() as connection:
            return Counter(dict(connection.execute("SELECT user, count(*) FROM effects GROUP BY user").fetchall()))

    def waits_ms(self) -> Sequence[int]:
        """Return how long after its sign-up each effect happened."""
        with self._file.transaction() as connection:
            return [wait for (wait,) in connection.execute("SELECT waited_ms FROM effects ORDER BY waited_ms")]


def _count(connection: sqlite3.Connection, kind: str) -> None:
    connection.execute(_COUNT_DELIVERY, (kind,))
