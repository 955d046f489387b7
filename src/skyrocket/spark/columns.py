"""The columns of both sources, with their Spark and Arrow types. `columnar/columns.py` decodes most of them.

Spark compares a batch's Arrow schema with its own. It accepts no large types, no dictionaries and no timestamps without a zone.
Spark's timestamps are microseconds in UTC; a record's are milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, MapType, StringType, StructField, StructType
from pyspark.sql.types import TimestampType as SparkTimestamp

from skyrocket.spark.errors import ColumnError

_TIME = pa.timestamp("us", "UTC")


class SourceColumn(NamedTuple):
    spark: DataType
    arrow: Any
    meaning: str


COLUMNS: Final[dict[str, SourceColumn]] = {
    "topic": SourceColumn(StringType(), pa.string(), "the topic"),
    "broker": SourceColumn(StringType(), pa.string(), "the name of the broker that has the queue"),
    "queueId": SourceColumn(IntegerType(), pa.int32(), "the queue's number at that broker"),
    "queueOffset": SourceColumn(LongType(), pa.int64(), "the message's offset in its queue"),
    "physicalOffset": SourceColumn(LongType(), pa.int64(), "the message's offset in the broker's commit log"),
    "storeTimestamp": SourceColumn(SparkTimestamp(), _TIME, "when the broker stored the message"),
    "bornTimestamp": SourceColumn(SparkTimestamp(), _TIME, "when the producer sent the message"),
    "bornHost": SourceColumn(StringType(), pa.string(), "the producer's address, as host:port"),
    "msgId": SourceColumn(StringType(), pa.string(), "the message's unique id, or its offset id if it has no unique id"),
    "tags": SourceColumn(StringType(), pa.string(), "the message's tag, or null"),
    "keys": SourceColumn(ArrayType(StringType()), pa.list_(pa.string()), "the message's keys; empty if it has none"),
    "properties": SourceColumn(
        MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()), "all properties of the message"
    ),
    "body": SourceColumn(BinaryType(), pa.binary(), "the message's body, decompressed"),
    "reconsumeTimes": SourceColumn(IntegerType(), pa.int32(), "how often consumers have retried the message"),
    "sysFlag": SourceColumn(IntegerType(), pa.int32(), "RocketMQ's system flags of the message"),
}
PROPERTIES: Final = "properties"  # costly to decode, so a query gets this column only on request


def select_columns(requested: Sequence[str] | None, *, include_properties: bool) -> tuple[str, ...]:
    """Return the columns that the options request, in their order. Without a request: all columns but `properties`."""
    if requested is None:
        return tuple(name for name in COLUMNS if include_properties or name != PROPERTIES)
    by_lower = {name.lower(): name for name in COLUMNS}
    unknown = [name for name in requested if name.lower() not in by_lower]
    if unknown:
        raise ColumnError(
            f"Option 'columns' names {', '.join(unknown)}, which no message has. The columns are: {', '.join(COLUMNS)}."
        )
    found = tuple(by_lower[name.lower()] for name in requested)
    return (*found, PROPERTIES) if include_properties and PROPERTIES not in found else found


def spark_schema(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, COLUMNS[name].spark) for name in columns])


def arrow_schema(columns: Sequence[str]) -> Any:
    return pa.schema([(name, COLUMNS[name].arrow) for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the column names of a schema that a user may have written. Raise ColumnError for a wrong name or type."""
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise ColumnError(f"Column '{field.name}' of the schema does not exist. The columns are: {', '.join(COLUMNS)}.")
        if field.dataType != column.spark:
            given, right = field.dataType.simpleString(), column.spark.simpleString()
            raise ColumnError(f"Column '{field.name}' of the schema has type {given}. Its type must be {right}.")
    return tuple(field.name for field in schema.fields)
