"""Versions inside the application's own database transaction: the version and the state it belongs to are committed together.

versions = SqlVersions()

with psycopg.connect(...) as connection:                                 # your transaction
    if versions.swap(connection, "account-7", version=4, expected=3):    # compare and set
        connection.execute("UPDATE accounts …")

skyrocket_versions   version_key VARCHAR(255) PRIMARY KEY, version BIGINT             MySQL: VARBINARY(1020)
"""

from __future__ import annotations

from typing import Any, Final

from skyrocket.client.helpers.sql_connection import check_key, check_table, key_type, sql_connection

TABLE: Final = "skyrocket_versions"

_CREATE: Final = "CREATE TABLE IF NOT EXISTS {table} (version_key {key_type} NOT NULL PRIMARY KEY, version BIGINT NOT NULL)"
_INSERT: Final = "INSERT INTO {table} (version_key, version) VALUES (?, ?) ON CONFLICT (version_key) DO NOTHING"
_INSERT_MYSQL: Final = "INSERT IGNORE INTO {table} (version_key, version) VALUES (?, ?)"
_SWAP: Final = "UPDATE {table} SET version = ? WHERE version_key = ? AND version = ?"
_ADVANCE: Final = "UPDATE {table} SET version = ? WHERE version_key = ? AND version < ?"


class SqlVersions:
    """The version of each key, in a table of the application's database."""

    def __init__(self, *, table: str = TABLE) -> None:
        self._table = check_table(table)

    def create_table(self, connection: Any) -> None:
        """Create the table if it does not exist, in the transaction of the connection, which MySQL commits with that."""
        self._execute(connection, _CREATE)

    def swap(self, connection: Any, key: str, *, version: int, expected: int | None) -> bool:
        """Set the version of a key if its present one is `expected`; None: if it has none. Returns whether it was."""
        if expected is None:
            return self._insert(connection, check_key(key), version)
        if version == expected and sql_connection(connection).dialect == "mysql":  # it does not count a row that stays as it is
            other = ~version
            return self._swap(connection, key, other, expected) and self._swap(connection, key, version, other)
        return self._swap(connection, key, version, expected)

    def _swap(self, connection: Any, key: str, version: int, expected: int) -> bool:
        return self._execute(connection, _SWAP, version, check_key(key), expected) == 1

    def advance(self, connection: Any, key: str, version: int) -> bool:
        """Set the version of a key if it is newer than its present one. Returns whether it was."""
        return (
            self._insert(connection, check_key(key), version) or self._execute(connection, _ADVANCE, version, key, version) == 1
        )

    def _insert(self, connection: Any, key: str, version: int) -> bool:
        statement = _INSERT_MYSQL if sql_connection(connection).dialect == "mysql" else _INSERT
        return self._execute(connection, statement, key, version) == 1

    def _execute(self, connection: Any, statement: str, *values: object) -> int:
        found = sql_connection(connection)
        return found.execute(statement.format(table=self._table, key_type=key_type(found.dialect)), values)
