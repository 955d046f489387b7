"""Claims inside the application's own database transaction: the key and the work are committed together, or neither is.

    claims = SqlClaims(scope="coupons")

    with psycopg.connect(...) as connection:               # your transaction; SQLAlchemy: with Session.begin() as session
        if claims.first(connection, order):
            connection.execute("INSERT INTO coupons …")

This excludes what other claims cannot: work that is done and whose key is not, and the reverse. So a claim needs neither a time
limit nor a token. A second transaction with the same key waits in the database until the first one has ended; then it is first if
the other rolled back, and not if it committed.

    skyrocket_claims   claim_key VARCHAR(255) PRIMARY KEY, expires_ms BIGINT          MySQL: VARBINARY(1020)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from skyrocket.client.helpers.deduplication import WINDOW_MS
from skyrocket.client.helpers.sql_connection import check_key, check_table, key_type, sql_connection

TABLE: Final = "skyrocket_claims"

_CREATE: Final = "CREATE TABLE IF NOT EXISTS {table} (claim_key {key_type} NOT NULL PRIMARY KEY, expires_ms BIGINT NOT NULL)"
_INSERT: Final = "INSERT INTO {table} (claim_key, expires_ms) VALUES (?, ?)"
_UPSERT: Final = _INSERT + " ON CONFLICT (claim_key) DO UPDATE SET expires_ms = excluded.expires_ms WHERE {table}.expires_ms <= ?"
_INSERT_NEW: Final = "INSERT IGNORE INTO {table} (claim_key, expires_ms) VALUES (?, ?)"  # MySQL's
_RENEW: Final = "UPDATE {table} SET expires_ms = ? WHERE claim_key = ? AND expires_ms <= ?"
_DELETE_EXPIRED: Final = "DELETE FROM {table} WHERE expires_ms <= ?"


class SqlClaims:
    """Keys that were handled, in a table of the application's database."""

    def __init__(
        self,
        *,
        scope: str = "",
        window_ms: int = WINDOW_MS,
        table: str = TABLE,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`scope` is a prefix of every key, usually the group's name. `window_ms` must exceed the longest delay of a message."""
        self._prefix = f"{scope}:" if scope else ""
        self._window_ms = window_ms
        self._table = check_table(table)
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)

    def create_table(self, connection: Any) -> None:
        """Create the table if it does not exist, in the transaction of the connection, which MySQL commits with that."""
        self._execute(connection, _CREATE)

    def first(self, connection: Any, key: str) -> bool:
        """Claim a key in the transaction of the connection. Returns whether it is the first time within the window.

        False: skip the work, and let the message be acknowledged. The claim counts once the transaction is committed.
        """
        full_key, now_ms = check_key(self._prefix + key), self._now_ms()
        until_ms = now_ms + self._window_ms
        if sql_connection(connection).dialect != "mysql":
            return self._execute(connection, _UPSERT, full_key, until_ms, now_ms) == 1
        # MySQL's ON DUPLICATE KEY counts rows in a way that depends on the connection's flags. These two do not.
        if self._execute(connection, _INSERT_NEW, full_key, until_ms) == 1:
            return True
        return self._execute(connection, _RENEW, until_ms, full_key, now_ms) == 1

    def delete_expired(self, connection: Any) -> int:
        """Delete the keys whose window has passed, in the transaction of the connection, and return how many."""
        return self._execute(connection, _DELETE_EXPIRED, self._now_ms())

    def _execute(self, connection: Any, statement: str, *values: object) -> int:
        found = sql_connection(connection)
        return found.execute(statement.format(table=self._table, key_type=key_type(found.dialect)), values)
