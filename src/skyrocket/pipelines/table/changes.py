"""Messages to changes: rows with key, version, typed columns, and for a message that is no change, the reason. Pure.

    rows = ChangeDecoder(settings).decode(batch)

A row is a change if `_reason` is null. A message with an empty body, with the body `null`, or with the mark of deletion is a
tombstone: its row has no values. A rejected message has its body in `_body`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.column_kinds import KINDS, canonical_json
from skyrocket.pipelines.json_columns.documents import BadBodyError, DocumentFitter, has_nul, parse_document
from skyrocket.pipelines.json_columns.json_schema import JsonColumns
from skyrocket.pipelines.table.change_spec import ChangeReader, ChangeSpec, MessageParts

DELETED_DIGEST: Final = "~"  # greater than any other: of two changes with one version, the deletion wins
_DIGEST_BYTES: Final = 8
_NULL: Final = b"null"

# Columns of a change, besides those of the body: what tables keep, and what only the driver needs.
KEPT: Final[dict[str, tuple[Any, DataType]]] = {
    "_key": (pa.string(), StringType()),
    "_version": (pa.int64(), LongType()),
    "_deleted": (pa.bool_(), BooleanType()),
    "_digest": (pa.string(), StringType()),
    "_rest": (pa.string(), StringType()),
    "_broker": (pa.string(), StringType()),
    "_queue": (pa.int32(), IntegerType()),
    "_offset": (pa.int64(), LongType()),
}
_PASSING: Final[dict[str, tuple[Any, DataType]]] = {
    "_message_id": (pa.string(), StringType()),
    "_reason": (pa.string(), StringType()),
    "_body": (pa.binary(), BinaryType()),
    "_drift": (pa.list_(pa.string()), ArrayType(StringType())),
}
REJECT_COLUMNS: Final = ("_broker", "_queue", "_offset", "_message_id", "_reason", "_body")


class DecoderSettings(msgspec.Struct, frozen=True):
    spec: ChangeSpec
    columns: JsonColumns
    refuse_nul: bool = False  # for a target that cannot hold the character NUL


def table_schema(columns: JsonColumns) -> Any:
    """Return the Arrow schema of the table: the body's columns, and those of KEPT."""
    own = [(column.name, KINDS[column.kind].arrow) for column in columns.columns]
    return pa.schema([*own, *((name, kind) for name, (kind, _) in KEPT.items())])


def change_schema(columns: JsonColumns) -> Any:
    passing = [pa.field(name, kind) for name, (kind, _) in _PASSING.items()]
    return pa.schema([*table_schema(columns), *passing])


def reject_schema() -> Any:
    kinds = {**KEPT, **_PASSING}
    return pa.schema([(name, kinds[name][0]) for name in REJECT_COLUMNS])


def spark_change_schema(columns: JsonColumns) -> StructType:
    """Return the same for Spark. Built from fields: a text would need a session, which planning processes lack."""
    own = [StructField(column.name, KINDS[column.kind].spark) for column in columns.columns]
    return StructType([*own, *(StructField(name, kind) for name, (_, kind) in {**KEPT, **_PASSING}.items())])


class ChangeDecoder:
    def __init__(self, settings: DecoderSettings) -> None:
        self._reader = ChangeReader(settings.spec)
        self._fitter = DocumentFitter(settings.columns)
        self._refuse_nul = settings.refuse_nul
        self._schema = change_schema(settings.columns)
        self._empty = [None] * len(settings.columns.columns)

    @property
    def message_columns(self) -> tuple[str, ...]:
        """The columns of the Spark source that `decode` needs."""
        needed = ("broker", "queueId", "queueOffset", "msgId", "keys", "body")
        return (*needed, "properties") if self._reader.needs_properties else needed

    def decode(self, batch: Any) -> Any:
        """Return a row for each message of a batch of the Spark source."""
        columns = {name: batch.column(name).to_pylist() for name in self.message_columns}
        properties = columns.get("properties") or [()] * batch.num_rows
        rows = [
            (*self._decode_message(body or b"", dict(about), keys or (), offset), broker, queue, offset, message_id)
            for body, about, keys, offset, broker, queue, message_id in zip(
                columns["body"],
                properties,
                columns["keys"],
                columns["queueOffset"],
                columns["broker"],
                columns["queueId"],
                columns["msgId"],
                strict=True,
            )
        ]
        return self._to_arrow(rows)

    def _decode_message(self, body: bytes, properties: dict[str, str], keys: Sequence[str], offset: int) -> tuple[Any, ...]:
        """Return values, key, version, deleted, digest, rest, drift, reason, body."""
        is_tombstone = not body or body.strip() == _NULL
        try:
            parts = MessageParts({} if is_tombstone else parse_document(body), properties, keys, offset)
            key, version = self._reader.read_key(parts), self._reader.read_version(parts)
            if self._refuse_nul and ("\0" in key or has_nul(parts.document)):
                raise BadBodyError("a text has the character NUL, which the target cannot hold")
            if is_tombstone or self._reader.is_deletion(parts):
                return self._empty, key, version, True, DELETED_DIGEST, None, None, None, None
            fitted = self._fitter.fit(parts.document)
            digest = blake2b(canonical_json(parts.document), digest_size=_DIGEST_BYTES).hexdigest()
        except BadBodyError as error:
            return self._empty, None, None, None, None, None, None, str(error), body
        except RecursionError:
            return self._empty, None, None, None, None, None, None, "the body is nested too deeply", body
        rest = None if fitted.rest is None else fitted.rest.decode()
        return fitted.values, key, version, False, digest, rest, fitted.drift, None, None

    def _to_arrow(self, rows: list[tuple[Any, ...]]) -> Any:
        if not rows:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        values, key, version, deleted, digest, rest, drift, reason, body, broker, queue, offset, message_id = zip(
            *rows, strict=True
        )
        own = list(zip(*values, strict=True)) if self._empty else []
        columns = [*own, key, version, deleted, digest, rest, broker, queue, offset, message_id, reason, body, drift]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def check_spec(batches: Iterable[Any], spec: ChangeSpec, columns: JsonColumns) -> None:
    """Raise ArgumentError if not one message of a sample is a change: then an option is wrong rather than every message."""
    decoder = ChangeDecoder(DecoderSettings(spec, columns))
    rejected, reason = 0, ""
    for batch in batches:
        reasons = decoder.decode(batch).column("_reason")
        if reasons.null_count:
            return
        rejected += len(reasons)
        reason = reasons[-1].as_py()
    if rejected:
        raise ArgumentError(
            f"None of the {rejected:,} newest messages of the topic is a change. Of the last one, {reason}. "
            "Look at --key, --version and --schema."
        )
