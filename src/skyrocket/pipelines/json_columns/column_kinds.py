"""The kinds of columns that JSON values go to. Pure.

    boolean     true, false
    bigint      whole numbers of 64 bits
    double      numbers; whole ones only as far as a double has each of them
    text        strings
    timestamp   strings such as 2026-11-18T09:00:00Z, with a zone; by JSON Schema only
    json        any value, as JSON text

A value that its column cannot hold exactly is a misfit. It is not converted: the caller keeps it beside the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, TimestampType

MISFIT: Final = object()
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_EXACT_DOUBLE: Final = 2**53
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def canonical_json(value: Any) -> bytes:
    """Return a value as JSON whose fields are sorted, so that equal values are equal texts."""
    return _ENCODER.encode(value)


def is_int64(value: Any) -> bool:
    return type(value) is int and INT64_MIN <= value <= INT64_MAX


def _fit_boolean(value: Any) -> Any:
    return value if isinstance(value, bool) else MISFIT


def _fit_bigint(value: Any) -> Any:
    return value if is_int64(value) else MISFIT


def _fit_double(value: Any) -> Any:
    if type(value) is float:
        return value
    return float(value) if type(value) is int and abs(value) <= _EXACT_DOUBLE else MISFIT


def _fit_text(value: Any) -> Any:
    return value if isinstance(value, str) else MISFIT


def _fit_timestamp(value: Any) -> Any:
    if not isinstance(value, str):
        return MISFIT
    try:
        found = datetime.fromisoformat(value)
        return MISFIT if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return MISFIT


def _fit_json(value: Any) -> Any:
    return canonical_json(value).decode()


class ColumnKind(NamedTuple):
    arrow: Any
    spark: DataType
    fit: Callable[[Any], Any]  # returns the value for the column, or MISFIT


KINDS: Final[dict[str, ColumnKind]] = {
    "boolean": ColumnKind(pa.bool_(), BooleanType(), _fit_boolean),
    "bigint": ColumnKind(pa.int64(), LongType(), _fit_bigint),
    "double": ColumnKind(pa.float64(), DoubleType(), _fit_double),
    "text": ColumnKind(pa.string(), StringType(), _fit_text),
    "timestamp": ColumnKind(pa.timestamp("us", "UTC"), TimestampType(), _fit_timestamp),
    "json": ColumnKind(pa.string(), StringType(), _fit_json),
}


def kind_of(value: Any) -> str:
    """Return the narrowest kind of a JSON value that is not null. No string is a timestamp by itself."""
    for name in ("boolean", "bigint", "double", "text"):
        if KINDS[name].fit(value) is not MISFIT:
            return name
    return "json"


def common_kind(kinds: set[str]) -> str:
    """Return the kind of a column that holds values of all these kinds exactly."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "double" if kinds == {"bigint", "double"} else "json"
