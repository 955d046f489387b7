"""Claims and versions inside the application's own transaction: SQLite, a real PostgreSQL and a real MariaDB, plain and through
SQLAlchemy."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from skyrocket.client.errors import ConfigurationError
from skyrocket.client.helpers import SqlClaims, SqlVersions
from tests.support.processes.mariadb_server import mariadb_server
from tests.support.processes.postgres_server import postgres_server
from tests.support.waiting import WAIT_S_MAX

Connect = Callable[[], Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(scope="module")
def mariadb() -> Iterator[dict[str, Any]]:
    with mariadb_server() as address:
        yield address


@pytest.fixture(
    params=[
        *("sqlite3", "psycopg", "pymysql", "sqlalchemy-sqlite", "sqlalchemy-postgresql", "session-postgresql"),
        *("sqlalchemy-mysql", "session-mysql"),
    ]
)
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Opens connections to one database, each in a transaction that has to be committed."""
    kind = request.param
    if kind == "sqlite3":
        yield lambda: sqlite3.connect(tmp_path / "app.db", timeout=WAIT_S_MAX)
        return
    if kind == "psycopg":
        address = request.getfixturevalue("postgres")
        yield lambda: psycopg.connect(address)
        return
    if kind == "pymysql":
        arguments = request.getfixturevalue("mariadb")
        yield lambda: pymysql.connect(**arguments)
        return
    url = f"sqlite:///{tmp_path / 'app.db'}"
    if kind.endswith("postgresql"):
        parts = dict(part.split("=") for part in request.getfixturevalue("postgres").split())
        url = f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    elif kind.endswith("mysql"):
        given = request.getfixturevalue("mariadb")
        url = f"mysql+pymysql://{given['user']}@{given['host']}:{given['port']}/{given['database']}"
    engine = sqlalchemy.create_engine(url)
    yield (lambda: Session(engine)) if kind.startswith("session") else engine.connect
    engine.dispose()


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def claims(connect: Connect, request: pytest.FixtureRequest) -> SqlClaims:
    made = SqlClaims(scope=request.node.name[:200], window_ms=1_000, now_ms=Clock())
    connection = connect()
    made.create_table(connection)
    connection.commit()
    connection.close()
    return made


def claim(connect: Connect, claims: SqlClaims, key: str = "k", *, commit: bool = True) -> bool:
    connection = connect()
    try:
        first = claims.first(connection, key)
        connection.commit() if commit else connection.rollback()
        return first
    finally:
        connection.close()


def test_key_is_first_until_its_transaction_is_committed(connect: Connect, claims: SqlClaims):
    assert claim(connect, claims, commit=False)
    assert claim(connect, claims)
    assert not claim(connect, claims)
    assert claim(connect, claims, "other")


def test_key_is_first_again_behind_its_window(connect: Connect, claims: SqlClaims):
    clock = claims._now_ms
    assert isinstance(clock, Clock)
    assert claim(connect, claims)
    clock.now_ms += 999
    assert not claim(connect, claims)
    clock.now_ms += 1
    assert claim(connect, claims)
    assert not claim(connect, claims)


def test_expired_keys_can_be_deleted(connect: Connect, claims: SqlClaims):
    clock = claims._now_ms
    assert isinstance(clock, Clock)
    assert claim(connect, claims)
    connection = connect()
    claims.delete_expired(connection)
    connection.commit()
    assert not claim(connect, claims)
    clock.now_ms += 1_000
    assert claims.delete_expired(connection) >= 1
    connection.commit()
    connection.close()


def test_keys_that_differ_in_case_or_spaces_are_two_keys(connect: Connect, claims: SqlClaims):
    keys = ["order", "Order", "order ", "ordér", "orde\u0301r", "😀" * 20, "😁" * 20]
    assert [claim(connect, claims, key) for key in keys] == [True] * len(keys)
    assert [claim(connect, claims, key) for key in keys] == [False] * len(keys)


@pytest.fixture(params=["postgres", "mariadb"])
def begin(request: pytest.FixtureRequest) -> Connect:
    """Opens connections to a server with many clients, each in a transaction that has to be committed."""
    address = request.getfixturevalue(request.param)
    return (lambda: psycopg.connect(address)) if request.param == "postgres" else (lambda: pymysql.connect(**address))


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@pytest.mark.parametrize("is_expired", [False, True], ids=["new", "expired"])
def test_second_transaction_waits_for_the_end_of_the_first(
    begin: Connect, commits: bool, is_expired: bool, request: pytest.FixtureRequest
):
    clock = Clock()
    claims = SqlClaims(scope=request.node.name, window_ms=1_000, now_ms=clock)
    connection = begin()
    claims.create_table(connection)
    if is_expired:
        assert claims.first(connection, "k")
        clock.now_ms += 1_000
    connection.commit()
    connection.close()
    answers: list[bool] = []

    def second() -> None:
        connection = begin()
        answers.append(claims.first(connection, "k"))
        connection.commit()
        connection.close()

    first = begin()
    assert claims.first(first, "k")
    other = threading.Thread(target=second)
    other.start()
    other.join(0.2)
    assert answers == []  # it waits in the database
    first.commit() if commits else first.rollback()
    first.close()
    other.join(WAIT_S_MAX)
    assert answers == [not commits]


def test_work_and_key_are_committed_together_or_not_at_all(postgres: str):
    claims = SqlClaims(scope="together")
    with psycopg.connect(postgres) as connection:
        claims.create_table(connection)
        connection.execute("CREATE TABLE coupons (owner TEXT)")

    def handle(*, fails: bool) -> None:
        with psycopg.connect(postgres) as connection:
            if claims.first(connection, "u-42"):
                connection.execute("INSERT INTO coupons VALUES ('u-42')")
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handle(fails=True)
    handle(fails=False)
    handle(fails=False)
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT owner FROM coupons").fetchall() == [("u-42",)]


# --- versions


def test_version_is_swapped_only_from_the_expected_one(connect: Connect, request: pytest.FixtureRequest):
    versions, key, connection = SqlVersions(), request.node.name, connect()
    versions.create_table(connection)
    assert not versions.swap(connection, key, version=2, expected=1)
    assert versions.swap(connection, key, version=1, expected=None)
    assert not versions.swap(connection, key, version=1, expected=None)
    assert versions.swap(connection, key, version=2, expected=1)
    assert versions.swap(connection, key, version=2, expected=2), "it is the expected one, though nothing changes"
    assert not versions.swap(connection, key, version=1, expected=1)
    assert not versions.swap(connection, key, version=3, expected=1)
    assert versions.swap(connection, key.upper(), version=7, expected=None), "keys that differ in case are two keys"
    assert versions.advance(connection, key, 2**62)
    assert not versions.advance(connection, key, 2**62)
    connection.rollback()
    connection.close()


# --- what drivers differ in


class MysqlCursor:
    def __init__(self, ran: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.ran = ran
        self.rowcount = 0

    def execute(self, statement: str, values: tuple[Any, ...]) -> None:
        self.ran.append((statement, values))

    def close(self) -> None:
        return


def test_mysql_gets_its_own_statements_and_placeholders():
    """Of a connection that begins nothing: MySQL Connector's and mysqlclient's, of which no test has a server."""
    ran: list[tuple[str, tuple[Any, ...]]] = []
    kind = type("Connection", (), {"__module__": "pymysql.connections", "cursor": lambda _: MysqlCursor(ran)})
    assert not SqlClaims(window_ms=10, now_ms=lambda: 100).first(kind(), "k")
    assert ran == [
        ("INSERT IGNORE INTO skyrocket_claims (claim_key, expires_ms) VALUES (%s, %s)", ("k", 110)),
        ("UPDATE skyrocket_claims SET expires_ms = %s WHERE claim_key = %s AND expires_ms <= %s", (110, "k", 100)),
    ]


def test_connection_of_another_kind_is_refused():
    with pytest.raises(ConfigurationError, match=r"is not known here\. Pass a connection of sqlite3"):
        SqlClaims().first(object(), "k")


@pytest.mark.parametrize("table", ["", "a b", "claims; DROP TABLE users", "a.b.c", "1st"])
def test_name_of_a_table_is_a_plain_name(table: str):
    with pytest.raises(ConfigurationError, match="is not the name of a table"):
        SqlClaims(table=table)


def test_key_that_is_too_long_is_refused():
    with pytest.raises(ConfigurationError, match="A key has 1 to 255 characters, and this one 300"):
        SqlClaims().first(sqlite3.connect(":memory:"), "k" * 300)
