"""An Iceberg table, written through PyIceberg into the catalog of a folder (`iceberg_catalog`).

    orders                           the rows, with tombstones (`_deleted`)
    orders_waiting                   changes that wait for a missing version
    orders_rejects                   messages that are no changes, with the reason
    FOLDER/orders.lock               held by the job that writes

Description and offsets are properties of the table, which outlive its snapshots. They are one commit with the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from skyrocket.client.queues import Queue
from skyrocket.durable_file import make_directory
from skyrocket.pipelines.errors import ArgumentError, TargetError
from skyrocket.pipelines.iceberg_catalog import NAMESPACE, PROPERTIES, close_catalog, import_iceberg, one_sentence, open_catalog
from skyrocket.pipelines.table.changes import reject_schema, table_schema
from skyrocket.pipelines.table.committed_target import WAITING_ID, CommittedTarget, Part
from skyrocket.pipelines.table.target import TableBatch, TableDescription, WaitingChange, decode_description
from skyrocket.spark.options.offset_json import offsets_json, parse_offsets_json

DESCRIPTION: Final = "skyrocket.description"
OFFSETS: Final = "skyrocket.offsets"
LOCK_WAIT_S: Final = 5.0


class IcebergTable(CommittedTarget):
    def __init__(self, folder: Path, table: str) -> None:
        if "." in table or "/" in table:
            raise ArgumentError(f"The table's name is '{table}'. It must have no dot and no slash.")
        super().__init__()
        self._iceberg = import_iceberg()
        self._folder, self._table = folder, table
        self.name = f"Iceberg table {table} in {folder}"
        self.rejects = f"{table}_rejects"
        self._catalog = open_catalog(folder, create=False)

    # --- description and lock

    def lock(self) -> None:
        make_directory(self._folder)
        self._hold_lock(self._folder / f"{self._table}.lock", LOCK_WAIT_S)

    def _read_description(self) -> TableDescription | None:
        if self._catalog is None or not self._exists(""):
            return None
        found = self._load("").properties.get(DESCRIPTION)
        if found is None:
            raise TargetError(f"{self.name} exists, and this job did not make it. Choose another name with --table.")
        return decode_description(found, self.name)

    def create(self, description: TableDescription) -> None:
        self._catalog = self._catalog or open_catalog(self._folder, create=True)
        self._description = description
        self._make_tables(description)

    def _make_tables(self, description: TableDescription) -> None:
        rows = table_schema(description.columns)
        own = {DESCRIPTION: msgspec.json.encode(description).decode()}
        parts: tuple[tuple[Part, Any, dict[str, str]], ...] = (
            ("", rows, own),
            ("waiting", rows, {}),
            ("rejects", reject_schema(), {}),
        )
        for part, schema, more in parts:
            if not self._exists(part):
                self._catalog.create_table(self._id(part), schema=schema, properties={**PROPERTIES, **more})

    # --- reading

    def _id(self, part: Part) -> tuple[str, str]:
        return NAMESPACE, f"{self._table}_{part}" if part else self._table

    def _exists(self, part: Part) -> bool:
        return bool(self._catalog.table_exists(self._id(part)))

    def _load(self, part: Part) -> Any:
        with one_sentence(self.name):
            return self._catalog.load_table(self._id(part))

    def _read(self, part: Part, columns: Sequence[str], keys: Sequence[str] | None = None) -> Any:
        found = self._load(part).scan(selected_fields=tuple(columns)).to_arrow().select(list(columns))
        return found if keys is None else found.filter(pc.is_in(found.column("_key"), _key_set(found, keys)))

    def offsets(self, queues: Sequence[Queue]) -> dict[Queue, int]:
        found = self._offsets(self._load(""))
        return {queue: found[queue] for queue in queues if queue in found}

    @staticmethod
    def _offsets(table: Any) -> dict[Queue, int]:
        return parse_offsets_json(json.loads(table.properties.get(OFFSETS, "{}")))

    # --- writing

    def _add_waiting(self, batch: TableBatch) -> None:
        self._replace_waiting(batch.waiting.select(WAITING_ID), batch.waiting)

    def _publish(self, batch: TableBatch) -> None:
        """Commit rows and offsets, from a table as it was when the offsets were looked at."""
        table = self._load("")
        now = self._offsets(table)
        for queue in batch.stops:
            if now.get(queue) != batch.before.get(queue):
                raise TargetError(f"{self.name}: another job has read {queue} meanwhile. End one of them.")
        offsets: Mapping[Queue, int] = {**now, **batch.stops}
        with one_sentence(self.name), table.transaction() as transaction:
            if batch.rows.num_rows:
                keys = self._iceberg.expressions.In("_key", set(batch.rows.column("_key").to_pylist()))
                transaction.overwrite(batch.rows, overwrite_filter=keys)
            description = msgspec.json.encode(batch.description).decode()
            transaction.set_properties({OFFSETS: json.dumps(offsets_json(offsets)), DESCRIPTION: description})

    def _add_rejects(self, batch: TableBatch) -> None:
        """Add rejected messages. Whatever is behind the offsets of the table is of a run that was killed, and is replaced."""
        expressions = self._iceberg.expressions
        behind = expressions.AlwaysFalse()
        for queue in batch.stops:
            same = expressions.And(
                expressions.EqualTo("_broker", queue.broker_name), expressions.EqualTo("_queue", queue.queue_id)
            )
            later = expressions.GreaterThanOrEqual("_offset", batch.before.get(queue, 0))
            behind = expressions.Or(behind, expressions.And(same, later))
        with one_sentence(self.name):
            self._load("rejects").overwrite(batch.rejects, overwrite_filter=behind)

    def _settle(self, settled: Sequence[WaitingChange]) -> None:
        if settled:
            names = WaitingChange._fields
            columns = zip(names, zip(*settled, strict=True), strict=True)
            self._replace_waiting(pa.table({f"_{name}": list(values) for name, values in columns}), None)

    def _replace_waiting(self, gone: Any, added: Any) -> None:
        """Write the waiting changes anew, without some and with others. They are bounded, so this is cheap."""
        schema = self._schema()
        before = self._read("waiting", schema.names).cast(schema)
        names = gone.schema.names
        gone = gone.cast(pa.schema([schema.field(name) for name in names]))
        left = before.join(gone, names, join_type="left anti").select(schema.names).cast(schema)
        with one_sentence(self.name):
            self._load("waiting").overwrite(left if added is None else pa.concat_tables([left, added]))

    def close(self) -> None:
        close_catalog(self._catalog)
        super().close()


def _key_set(found: Any, keys: Sequence[str]) -> Any:
    return pa.array(keys, found.schema.field("_key").type)
