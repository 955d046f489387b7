"""A database connection of the application's, as the SQL helpers use it: plain DB-API, or SQLAlchemy.

    sqlite3, psycopg, psycopg2, PyMySQL, mysqlclient, MySQL Connector       a connection
    SQLAlchemy                                                             a Connection or a Session

The helpers begin, commit and roll back nothing: the statements are part of the application's transaction. Neither SQLAlchemy nor
a driver is imported here; a connection is recognised by the package of its class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from skyrocket.client.errors import ConfigurationError

KEY_CHARACTERS_MAX: Final = 255  # of a key: what an index of MySQL takes
_KEY_TYPES: Final = {
    "mysql": f"VARBINARY({4 * KEY_CHARACTERS_MAX})"
}  # texts of MySQL are equal in any case, and with spaces behind
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")

_DIALECT_OF_PACKAGE: Final = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pymysql": "mysql",
    "MySQLdb": "mysql",
    "mysql": "mysql",
}
_DIALECTS: Final = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_PLACEHOLDERS: Final = {"sqlite": "qmark", "postgresql": "format", "mysql": "format"}


class SqlConnection(NamedTuple):
    """A connection, its dialect (sqlite, postgresql or mysql), and the style of its placeholders."""

    connection: Any
    dialect: str
    style: str  # PEP 249's paramstyle

    def execute(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement with `?` for each value. Returns how many rows it changed."""
        text = _with_placeholders(statement, self.style)
        if hasattr(self.connection, "exec_driver_sql"):
            return int(self.connection.exec_driver_sql(text, tuple(values)).rowcount)
        cursor = self.connection.cursor()
        try:
            cursor.execute(text, tuple(values))
            return int(cursor.rowcount)
        finally:
            cursor.close()


def sql_connection(connection: Any) -> SqlConnection:
    """Recognise a connection. Raises ConfigurationError if the helpers do not know its kind."""
    package = type(connection).__module__.partition(".")[0]
    if package == "sqlalchemy" or hasattr(connection, "exec_driver_sql") or hasattr(connection, "get_bind"):
        found = connection if hasattr(connection, "exec_driver_sql") else connection.connection()  # a Session has a connection
        name = _DIALECTS.get(found.dialect.name)
        if name is not None:
            return SqlConnection(found, name, found.dialect.paramstyle)
    for kind in type(connection).__mro__:  # an application may have a subclass of its own
        name = _DIALECT_OF_PACKAGE.get(kind.__module__.partition(".")[0])
        if name is not None:
            return SqlConnection(connection, name, _PLACEHOLDERS[name])
    raise ConfigurationError(
        f"A {type(connection).__module__}.{type(connection).__qualname__} is not known here. Pass a connection of sqlite3, "
        "psycopg, PyMySQL, mysqlclient or MySQL Connector, or a Connection or Session of SQLAlchemy."
    )


def check_table(table: str) -> str:
    """Return the name of a table. Raises ConfigurationError if it is not a plain name, as it becomes part of statements."""
    if not _NAME.fullmatch(table):
        raise ConfigurationError(
            f"'{table}' is not the name of a table. Use letters, digits and _, with a schema before a dot or none."
        )
    return table


def key_type(dialect: str) -> str:
    """Return the type of a column of keys, in which two keys are equal only if all their characters are."""
    return _KEY_TYPES.get(dialect, f"VARCHAR({KEY_CHARACTERS_MAX})")


def check_key(key: str) -> str:
    """Return a key. Raises ConfigurationError if it is too long for the table."""
    if not 0 < len(key) <= KEY_CHARACTERS_MAX:
        raise ConfigurationError(f"A key has 1 to {KEY_CHARACTERS_MAX} characters, and this one {len(key)}: {key[:40]!r}.")
    return key


def _with_placeholders(statement: str, style: str) -> str:
    """Replace each `?` by the placeholder of a driver."""
    if style == "qmark":
        return statement
    if style in ("format", "pyformat"):
        return statement.replace("?", "%s")
    parts = statement.split("?")
    mark = "$" if style == "numeric_dollar" else ":"
    return "".join(part + (f"{mark}{number}" if number < len(parts) else "") for number, part in enumerate(parts, 1))
