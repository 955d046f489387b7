"""The columns that both sources give, as Spark and as Arrow know them. `columnar/columns.py` decodes most of them.

Spark checks a batch's Arrow schema against its own and takes these kinds only: no large ones, no dictionaries, no timestamps
without a zone. Times are microseconds in UTC there, milliseconds in a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, MapType, StringType, StructField, StructType
from pyspark.sql.types import TimestampType as SparkTimestamp

from skyrocket.spark.errors import ColumnError

_TIME = pa.timestamp("us", "UTC")


class Column(NamedTuple):
    spark: DataType
    arrow: Any
    meaning: str


COLUMNS: Final[dict[str, Column]] = {
    "topic": Column(StringType(), pa.string(), "the topic"),
    "broker": Column(StringType(), pa.string(), "the name of the broker that has the queue"),
    "queueId": Column(IntegerType(), pa.int32(), "the queue's number there"),
    "queueOffset": Column(LongType(), pa.int64(), "the message's place in its queue"),
    "physicalOffset": Column(LongType(), pa.int64(), "its place in the broker's commit log"),
    "storeTimestamp": Column(SparkTimestamp(), _TIME, "when the broker stored it"),
    "bornTimestamp": Column(SparkTimestamp(), _TIME, "when its producer sent it"),
    "bornHost": Column(StringType(), pa.string(), "from where, as host:port"),
    "msgId": Column(StringType(), pa.string(), "its unique id; where it has none, its offset id"),
    "tags": Column(StringType(), pa.string(), "its tag, or null"),
    "keys": Column(ArrayType(StringType()), pa.list_(pa.string()), "its keys; empty when it has none"),
    "properties": Column(MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()), "all its properties"),
    "body": Column(BinaryType(), pa.binary(), "its body, decompressed"),
    "reconsumeTimes": Column(IntegerType(), pa.int32(), "how often it was tried before"),
    "sysFlag": Column(IntegerType(), pa.int32(), "RocketMQ's flags of the message"),
}
PROPERTIES: Final = "properties"  # the one that is costly, and given on request only


def chosen_columns(asked: Sequence[str] | None, *, include_properties: bool) -> tuple[str, ...]:
    """Those that the options ask for, in their order: all but the properties, unless they say more."""
    if asked is None:
        return tuple(name for name in COLUMNS if include_properties or name != PROPERTIES)
    by_lower = {name.lower(): name for name in COLUMNS}
    unknown = [name for name in asked if name.lower() not in by_lower]
    if unknown:
        raise ColumnError(f"Option 'columns' asks for {', '.join(unknown)}, but there are only: {', '.join(COLUMNS)}.")
    found = tuple(by_lower[name.lower()] for name in asked)
    return (*found, PROPERTIES) if include_properties and PROPERTIES not in found else found


def spark_schema(columns: Sequence[str]) -> StructType:
    return StructType([StructField(name, COLUMNS[name].spark) for name in columns])


def arrow_schema(columns: Sequence[str]) -> Any:
    return pa.schema([(name, COLUMNS[name].arrow) for name in columns])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Of a schema that a user may have given: any of the columns, with their types."""
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise ColumnError(f"Column '{field.name}' of the schema is none that a message has; there are: {', '.join(COLUMNS)}.")
        if field.dataType != column.spark:
            given, right = field.dataType.simpleString(), column.spark.simpleString()
            raise ColumnError(f"Column '{field.name}' of the schema is {given}, but a message's is {right}.")
    return tuple(field.name for field in schema.fields)
