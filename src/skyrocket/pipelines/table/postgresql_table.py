"""A table in PostgreSQL. One transaction has the rows, the waiting changes, the rejected messages and the offsets.

    orders                 the rows, with tombstones (`_deleted`)
    orders_live            a view: the rows that are not deleted, with the body's columns
    orders_waiting         changes that wait for a missing version
    orders_rejects         messages that are no changes, with the reason
    skyrocket_tables       the description of each table of the schema
    skyrocket_offsets      where each table has arrived in each queue

Rows go by COPY to a temporary table, and from there by INSERT … ON CONFLICT. The offsets change only from what the batch began
with: of two jobs, one fails and writes nothing. An advisory lock tells the second one at its start.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.csv as pa_csv  # type: ignore[import-untyped]

from skyrocket.client.queues import Queue
from skyrocket.pipelines.errors import ArgumentError, TargetError
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.table.changes import REJECT_COLUMNS, table_schema
from skyrocket.pipelines.table.fold import Held
from skyrocket.pipelines.table.target import TableBatch, TableDescription, WaitingChange, WaitingKey, decode_description

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composable, Composed, Identifier

TYPES: Final = {
    "boolean": "boolean",
    "bigint": "bigint",
    "double": "double precision",
    "text": "text",
    "timestamp": "timestamptz",
    "json": "jsonb",
}
KEPT_TYPES: Final = {
    "_key": "text not null",
    "_version": "bigint not null",
    "_deleted": "boolean not null",
    "_digest": "text not null",
    "_rest": "jsonb",
    "_broker": "text not null",
    "_queue": "integer not null",
    "_offset": "bigint not null",
}
REJECT_TYPES: Final = {
    "_broker": "text",
    "_queue": "integer",
    "_offset": "bigint",
    "_message_id": "text",
    "_reason": "text not null",
    "_body": "bytea not null",
}
NAME_BYTES_MAX: Final = 63 - len("_waiting")
LOCK_WAIT_S: Final = 5.0  # for the server to notice that a killed job is gone
CONNECT_S: Final = 10
COPY_ROWS: Final = 10_000  # that are text in memory at a time
_LOCK_SPACE: Final = 0x5359  # of our advisory locks


def _psycopg() -> Any:
    try:
        import psycopg  # noqa: PLC0415 — only this target needs it
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "A table in PostgreSQL needs the package psycopg. Install it with: pip install 'skyrocketmq[pipelines]'"
        ) from error
    return psycopg


class PostgresqlTable:
    refuses_nul = True

    def __init__(self, dsn: str, table: str) -> None:
        """`dsn` is what libpq takes: a URL or key=value words. `table` may have a schema before a dot."""
        self._psycopg = _psycopg()
        self._schema, _, self._table = table.rpartition(".")
        if not self._table or len(self._table.encode()) > NAME_BYTES_MAX or "\0" in table:
            raise ArgumentError(f"The table's name is '{table}'. It must have 1 to {NAME_BYTES_MAX} bytes, after its schema's.")
        self.name = f"Table {table} in PostgreSQL"
        self._columns = JsonColumns()
        with self._sentence():
            self._connection: psycopg.Connection[Any] = self._psycopg.connect(
                dsn, connect_timeout=CONNECT_S, application_name="skyrocket pipeline table"
            )
        info = self._connection.info
        self.rejects = f"{table}_rejects"
        self.name = f"Table {table} of {info.dbname} at {info.host or info.hostaddr}:{info.port}"
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        with self._sentence(), self._connection.transaction():
            encoding = self._connection.info.parameter_status("server_encoding")
            if encoding != "UTF8":
                raise TargetError(f"{self.name}: the database has the encoding {encoding}. It must have UTF8.")
        if not self._schema:
            with self._sentence(), self._connection.transaction():
                found = self._connection.execute("select current_schema()").fetchone()
            if found is None or found[0] is None:
                raise TargetError(f"{self.name}: the connection has no schema to make tables in. Use --table SCHEMA.TABLE.")
            self._schema = str(found[0])

    # --- statements

    def _id(self, suffix: str = "") -> Identifier:
        return self._psycopg.sql.Identifier(self._schema, self._table + suffix)  # type: ignore[no-any-return]

    def _own(self, name: str) -> Identifier:
        return self._psycopg.sql.Identifier(self._schema, name)  # type: ignore[no-any-return]

    def _format(self, text: str, **names: Any) -> Composed:
        sql = self._psycopg.sql
        given = {
            "table": self._id(),
            "waiting": self._id("_waiting"),
            "rejects": self._id("_rejects"),
            "live": self._id("_live"),
            "tables": self._own("skyrocket_tables"),
            "offsets": self._own("skyrocket_offsets"),
        }
        return sql.SQL(text).format(**given, **names)  # type: ignore[no-any-return]

    def _names(self, names: Sequence[str]) -> Composed:
        sql = self._psycopg.sql
        return sql.SQL(", ").join(map(sql.Identifier, names))  # type: ignore[no-any-return]

    @contextmanager
    def _sentence(self) -> Iterator[None]:
        """Turn an error of the server or the connection into one sentence. It may have the password in further lines."""
        try:
            yield
        except self._psycopg.Error as error:
            raise TargetError(f"{self.name}: {(str(error).strip() or type(error).__name__).splitlines()[0]}") from error

    def _exists(self, name: str) -> bool:
        found = self._connection.execute(
            "select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s",
            (self._schema, name),
        )
        return found.fetchone() is not None

    # --- description and lock

    def load(self) -> TableDescription | None:
        with self._sentence(), self._connection.transaction():
            row = None
            if self._exists("skyrocket_tables"):
                statement = self._format("select description from {tables} where table_name = %s")
                row = self._connection.execute(statement, (self._table,)).fetchone()
            if row is None:
                if self._exists(self._table):
                    raise TargetError(f"{self.name} exists, and this job did not make it. Choose another name with --table.")
                return None
            if not self._exists(self._table):
                raise TargetError(
                    f"{self.name} was dropped, but {self._schema}.skyrocket_tables and skyrocket_offsets still have its rows. "
                    "Delete them there to begin again."
                )
        found = decode_description(row[0], self.name)
        self._columns = found.columns
        return found

    def lock(self) -> None:
        """Take the lock that one job has, for as long as the connection lasts."""
        deadline_s = time.monotonic() + LOCK_WAIT_S
        statement = "select pg_try_advisory_lock(%s, hashtext(%s))"
        while True:
            with self._sentence(), self._connection.transaction():
                row = self._connection.execute(statement, (_LOCK_SPACE, f"{self._schema}.{self._table}")).fetchone()
            if row is not None and row[0]:
                return
            if time.monotonic() >= deadline_s:
                raise TargetError(f"Another job is writing to {self.name}. Wait until it has ended.")
            time.sleep(0.1)

    def create(self, description: TableDescription) -> None:
        sql = self._psycopg.sql
        own = {column.name: TYPES[column.kind] for column in description.columns.columns}

        def columns_of(types: dict[str, str]) -> Composed:
            parts = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()]
            return sql.SQL(", ").join(parts)  # type: ignore[no-any-return]

        columns = columns_of({**own, **KEPT_TYPES})
        statements = [
            self._format("create table {table} ({columns}, primary key (_key))", columns=columns),
            self._format("create table {waiting} ({columns}, primary key (_key, _version))", columns=columns),
            self._format(
                "create table {rejects} ({columns}, primary key (_broker, _queue, _offset))", columns=columns_of(REJECT_TYPES)
            ),
            self._format(
                "create view {live} as select {columns} from {table} where not _deleted",
                columns=self._names([*own, "_key", "_version", "_rest"]),
            ),
            self._format("create table if not exists {tables} (table_name text primary key, description text not null)"),
            self._format(
                "create table if not exists {offsets} (table_name text, topic text, broker text, queue_id integer, "
                "next_offset bigint not null, primary key (table_name, topic, broker, queue_id))"
            ),
        ]
        with self._sentence(), self._connection.transaction():
            for statement in statements:
                self._connection.execute(statement)
            self._connection.execute(
                self._format("insert into {tables} values (%s, %s)"),
                (self._table, msgspec.json.encode(description).decode()),
            )
        self._columns = description.columns

    # --- reading

    def offsets(self, queues: Sequence[Queue]) -> dict[Queue, int]:
        statement = self._format("select topic, broker, queue_id, next_offset from {offsets} where table_name = %s")
        with self._sentence(), self._connection.transaction():
            rows = self._connection.execute(statement, (self._table,)).fetchall()
        found = {Queue(topic, broker, queue_id): offset for topic, broker, queue_id, offset in rows}
        return {queue: found[queue] for queue in queues if queue in found}

    def read_held(self, keys: Sequence[str]) -> dict[str, Held]:
        statement = self._format("select _key, _version, _digest from {table} where _key = any(%s)")
        with self._sentence(), self._connection.transaction():
            rows = self._connection.execute(statement, (list(keys),)).fetchall()
        return {key: Held(version, digest) for key, version, digest in rows}

    def read_waiting(self, keys: Sequence[str]) -> Any:
        schema = table_schema(self._columns)
        # jsonb would come back as Python objects, and is text in Arrow
        as_text = {column.name for column in self._columns.columns if column.kind == "json"} | {"_rest"}
        sql = self._psycopg.sql
        columns = sql.SQL(", ").join(
            sql.SQL("{}::text" if name in as_text else "{}").format(sql.Identifier(name)) for name in schema.names
        )
        statement = self._format("select {columns} from {waiting} where _key = any(%s)", columns=columns)
        with self._sentence(), self._connection.transaction():
            rows = self._connection.execute(statement, (list(keys),)).fetchall()
        values = list(zip(*rows, strict=True)) or [()] * len(schema)
        return pa.table([pa.array(column, field.type) for column, field in zip(values, schema, strict=True)], schema=schema)

    def waiting_count(self) -> int:
        with self._sentence(), self._connection.transaction():
            row = self._connection.execute(self._format("select count(*) from {waiting}")).fetchone()
        assert row is not None
        return int(row[0])

    def waiting_keys(self, most: int) -> list[WaitingKey]:
        statement = self._format(
            "select w._key, t._version, w.lowest, w.number from (select _key, min(_version) as lowest, count(*) as number "
            "from {waiting} group by _key order by _key limit %s) w left join {table} t on t._key = w._key order by w._key"
        )
        with self._sentence(), self._connection.transaction():
            return [WaitingKey(*row) for row in self._connection.execute(statement, (most,)).fetchall()]

    # --- writing

    def commit(self, batch: TableBatch) -> None:
        with self._sentence(), self._connection.transaction():
            self._advance(batch)
            description = msgspec.json.encode(batch.description).decode()
            statement = self._format("update {tables} set description = %s where table_name = %s")
            self._connection.execute(statement, (description, self._table))
            names = [name for name in batch.rows.schema.names if name != "_key"]
            sql = self._psycopg.sql
            sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names)
            newer = sql.SQL("on conflict (_key) do update set {} where t._version <= excluded._version").format(sets)
            self._merge(batch.rows, self._id(), newer)
            self._settle(batch.settled)
            replace = sql.SQL("on conflict (_key, _version) do update set {}").format(sets)
            self._merge(batch.waiting, self._id("_waiting"), replace)
            self._merge(_hex_bodies(batch.rejects), self._id("_rejects"), sql.SQL("on conflict do nothing"))

    def _advance(self, batch: TableBatch) -> None:
        """Move the offsets to the stops of the batch. Fail if they are not where they were when it was planned."""
        statement = self._format(
            "insert into {offsets} as o values (%s, %s, %s, %s, %s) on conflict (table_name, topic, broker, queue_id) "
            "do update set next_offset = excluded.next_offset where o.next_offset = %s"
        )
        for queue, stop in batch.stops.items():
            place = (self._table, queue.topic, queue.broker_name, queue.queue_id)
            if self._connection.execute(statement, (*place, stop, batch.before.get(queue))).rowcount != 1:
                raise TargetError(f"{self.name}: another job has read {queue} meanwhile. End one of them.")

    def _merge(self, rows: Any, into: Identifier, on_conflict: Composable) -> None:
        if not rows.num_rows:
            return
        names = self._names(rows.schema.names)
        self._connection.execute(self._format("create temp table incoming (like {into}) on commit drop", into=into))
        copy_in = self._format("copy incoming ({names}) from stdin (format csv)", names=names)
        with self._connection.cursor() as cursor, cursor.copy(copy_in) as copy:
            for piece in rows.to_batches(max_chunksize=COPY_ROWS):
                text = io.BytesIO()
                pa_csv.write_csv(piece, text, pa_csv.WriteOptions(include_header=False))
                copy.write(text.getvalue())
        statement = "insert into {into} as t ({names}) select {names} from incoming {on_conflict}"
        self._connection.execute(self._format(statement, into=into, names=names, on_conflict=on_conflict))
        self._connection.execute("drop table incoming")

    def _settle(self, settled: Sequence[WaitingChange]) -> None:
        if settled:
            statement = self._format(
                "delete from {waiting} w using unnest(%s::text[], %s::bigint[], %s::text[]) as gone(k, v, d) "
                "where w._key = gone.k and w._version = gone.v and w._digest = gone.d"
            )
            self._connection.execute(statement, [list(column) for column in zip(*settled, strict=True)])

    def close(self) -> None:
        self._connection.close()


def _hex_bodies(rejects: Any) -> Any:
    """Return the rejected messages with their bodies as PostgreSQL writes bytes in text, and ids that it can hold."""
    assert tuple(rejects.schema.names) == REJECT_COLUMNS
    bodies = pa.array([f"\\x{body.hex()}" for body in rejects.column("_body").to_pylist()], pa.string())
    ids = pc.replace_substring(rejects.column("_message_id"), "\0", "")
    found = rejects.set_column(REJECT_COLUMNS.index("_body"), "_body", bodies)
    return found.set_column(REJECT_COLUMNS.index("_message_id"), "_message_id", ids)
