"""Adds typed columns to messages, beside their raw bodies. Pure, but for what it counts.

    json        a struct of the typed columns; null if the body is bad
    jsonRest    JSON of the fields that have no column, or a value that their column cannot hold exactly
    jsonError   why the body is bad: not JSON, not an object, or without a required field

A struct, so that fields of bodies and columns of messages do not meet: a body may have a field `topic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import DataType, StringType, StructField, StructType

from skyrocket.pipelines.json_columns.column_kinds import KINDS
from skyrocket.pipelines.json_columns.documents import BadBodyError, DocumentFitter, parse_document
from skyrocket.pipelines.json_columns.drift import DriftCounter
from skyrocket.pipelines.json_columns.json_schema import JsonColumns

STRUCT, REST, ERROR = "json", "jsonRest", "jsonError"
BODY_COLUMNS: Final = (STRUCT, REST, ERROR)


def struct_type(columns: JsonColumns) -> Any:
    return pa.struct([(column.name, KINDS[column.kind].arrow) for column in columns.columns])


def arrow_fields(columns: JsonColumns) -> list[tuple[str, Any]]:
    return [(STRUCT, struct_type(columns)), (REST, pa.string()), (ERROR, pa.string())]


def spark_fields(columns: JsonColumns) -> list[StructField]:
    inner: DataType = StructType([StructField(column.name, KINDS[column.kind].spark) for column in columns.columns])
    return [StructField(STRUCT, inner), StructField(REST, StringType()), StructField(ERROR, StringType())]


class BodyColumns:
    """Adds the columns to batches of messages, and counts bad bodies and drift until `take_counts`."""

    def __init__(self, columns: JsonColumns) -> None:
        self._columns = columns
        self._fitter = DocumentFitter(columns)
        self._empty = (None,) * len(columns.columns)
        self._bad, self._drift = 0, DriftCounter()

    def add(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield self._add_to(batch)

    def _add_to(self, batch: Any) -> Any:
        values: list[Sequence[Any]] = []
        rests: list[str | None] = []
        errors: list[str | None] = []
        for body in batch.column("body").to_pylist():
            try:
                fitted = self._fitter.fit(parse_document(body or b""))
            except BadBodyError as error:
                self._bad += 1
                values.append(self._empty)
                rests.append(None)
                errors.append(str(error))
                continue
            self._drift.add(fitted.drift or ())
            values.append(fitted.values)
            rests.append(None if fitted.rest is None else fitted.rest.decode())
            errors.append(None)
        fields = list(zip(*values, strict=True)) or [()] * len(self._empty)
        kinds = struct_type(self._columns)
        arrays = [pa.array(column, kind.type) for column, kind in zip(fields, kinds, strict=True)]
        is_bad = pa.array([error is not None for error in errors], pa.bool_())
        made = pa.StructArray.from_arrays(arrays, fields=list(kinds), mask=is_bad)
        columns = [*batch.columns, made, pa.array(rests, pa.string()), pa.array(errors, pa.string())]
        schema = pa.schema([*batch.schema, *(pa.field(name, kind) for name, kind in arrow_fields(self._columns))])
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def take_counts(self) -> tuple[int, dict[str, int]]:
        """Return bad bodies and drift since the last call."""
        found = self._bad, self._drift.counts
        self._bad, self._drift = 0, DriftCounter()
        return found
