"""Which typed columns JSON bodies have: read from a JSON Schema, or inferred from bodies. Pure, but for reading the file.

    schema = parse_json_schema(path.read_bytes(), path)
    schema = infer_columns(documents)

Only the fields at the top of a document become columns. A field that holds an object or an array is a column of JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from skyrocket.pipelines.errors import ArgumentError
from skyrocket.pipelines.json_columns.column_kinds import KINDS, common_kind, kind_of

COLUMNS_MAX: Final = 500
NAME_BYTES_MAX: Final = 63  # what a name of PostgreSQL can have
RESERVED_PREFIX: Final = "_"  # columns of the jobs themselves begin with it
_TYPES: Final = {
    "boolean": "boolean",
    "integer": "bigint",
    "number": "double",
    "string": "text",
    "object": "json",
    "array": "json",
}


class JsonColumn(msgspec.Struct, frozen=True):
    name: str
    kind: str  # a name in KINDS


class JsonColumns(msgspec.Struct, frozen=True):
    columns: list[JsonColumn] = []
    required: list[str] = []  # fields without which a body is bad

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


def may_be_column(name: str) -> bool:
    """Whether a field can be a column in every target: a short name without control characters that no job uses itself."""
    is_short = 0 < len(name.encode()) <= NAME_BYTES_MAX
    return is_short and name.isprintable() and not name.startswith(RESERVED_PREFIX) and not set(name) & set(' ,;{}()="`.')


def infer_columns(documents: Iterable[Mapping[str, Any]]) -> JsonColumns:
    """Return a column for each field that has a value in some document, sorted by name.

    Fields that can be no column stay without one, and so do fields beyond COLUMNS_MAX, and a field whose name differs from
    another one by case only, because readers such as Spark do not tell them apart.
    """
    kinds: dict[str, set[str]] = {}
    for document in documents:
        for name, value in document.items():
            if value is not None and may_be_column(name):
                kinds.setdefault(name, set()).add(kind_of(value))
    chosen: dict[str, JsonColumn] = {}
    for name in sorted(kinds):
        if len(chosen) < COLUMNS_MAX:
            chosen.setdefault(name.lower(), JsonColumn(name, common_kind(kinds[name])))
    return JsonColumns(sorted(chosen.values(), key=lambda column: column.name))


def read_json_schema(path: Path) -> JsonColumns:
    """Read the columns from a file. Raise ArgumentError if it is not a JSON Schema, or not there."""
    try:
        return parse_json_schema(path.read_bytes(), path)
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror}.") from error


def parse_json_schema(text: bytes, path: object) -> JsonColumns:
    """Read the columns from a JSON Schema: `properties` of an object, and `required`."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"{path} is not JSON: {error}") from error
    fields = found.get("properties") if isinstance(found, dict) else None
    if not isinstance(fields, dict) or not fields:
        raise ArgumentError(f"{path} is not a JSON Schema of an object: it has no 'properties'.")
    if len(fields) > COLUMNS_MAX:
        raise ArgumentError(f"{path} has {len(fields)} properties. A table has at most {COLUMNS_MAX} columns.")
    seen: set[str] = set()
    for name in fields:
        if not may_be_column(name) or name.lower() in seen:
            raise ArgumentError(
                f"{path} has the property {name!r}, which cannot be a column. A name has up to {NAME_BYTES_MAX} bytes, does "
                f'not begin with {RESERVED_PREFIX}, has no space and none of ,;{{}}()="`. in it, and differs by more than case.'
            )
        seen.add(name.lower())
    required = found.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ArgumentError(f"{path} has a 'required' that is not a list of names.")
    return JsonColumns([JsonColumn(name, _kind_of_property(field)) for name, field in fields.items()], required)


def _kind_of_property(field: Any) -> str:
    """Return the kind that holds every value that a property's schema allows. What is not plainly of one type is JSON."""
    if not isinstance(field, dict):
        return "json"
    types = field.get("type")
    named = set(types if isinstance(types, list) else [types]) - {"null"}
    if named == {"string"} and field.get("format") == "date-time":
        return "timestamp"
    kinds = {_TYPES.get(name, "json") if isinstance(name, str) else "json" for name in named}
    kind = common_kind(kinds) if kinds else "json"
    assert kind in KINDS
    return kind
