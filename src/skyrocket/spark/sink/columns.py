"""The columns that the sink accepts. The driver checks a schema against them before a task starts."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from skyrocket.spark.errors import ColumnError
from skyrocket.spark.options.sink_options import EXACTLY_ONCE


class SinkColumn(NamedTuple):
    kinds: tuple[str, ...]  # type names as Spark writes them
    meaning: str


SINK_COLUMNS: Final = {
    "body": SinkColumn(("binary", "string"), "the message's body; a string is sent as UTF-8. Required, never null or empty"),
    "topic": SinkColumn(("string",), "the message's topic, unless option `topic` sets one for all rows"),
    "tags": SinkColumn(("string",), "the message's tag"),
    "keys": SinkColumn(("string", "array<string>"), "the message's keys; in a string, separated by spaces"),
    "properties": SinkColumn(("map<string,string>",), "the message's properties; names that RocketMQ reserves are refused"),
    "shardingKey": SinkColumn(("string",), "rows of a task with the same key go to one queue, in order"),
    "delayLevel": SinkColumn(("int", "bigint", "smallint", "tinyint"), "deliver after 1 s, 5 s, 10 s, … 2 h: levels 1 to 18"),
    "delayMs": SinkColumn(("bigint", "int"), "deliver after this many milliseconds"),
    "deliverAt": SinkColumn(("timestamp", "bigint"), "deliver at this time; a number is milliseconds since 1970"),
}
ALIASES: Final = {"value": "body"}  # the name in Spark's Kafka sink
DELAYS: Final = ("delayLevel", "delayMs", "deliverAt")

_names = {name.lower(): name for name in (*SINK_COLUMNS, *ALIASES)}


def sink_columns(schema: StructType, *, topic: str | None, exactly_once: bool) -> dict[str, int]:
    """Return the index of each column (body, topic, …) in a row. Raise ColumnError if the schema cannot be written."""
    found: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = _names.get(field.name.lower())
        if name is None:
            existing = ", ".join(SINK_COLUMNS)
            raise ColumnError(f"Column '{field.name}' does not exist in the sink rocketmq. Its columns are: {existing}.")
        name = ALIASES.get(name, name)
        if name in found:
            other = schema.fields[found[name]].name
            raise ColumnError(f"Columns '{other}' and '{field.name}' are both the {name}. Leave one of them out.")
        kind, kinds = field.dataType.simpleString(), SINK_COLUMNS[name].kinds
        if kind not in kinds:
            raise ColumnError(f"Column '{field.name}' has type {kind}. The sink rocketmq accepts {' or '.join(kinds)}.")
        found[name] = place
    if "body" not in found:
        raise ColumnError("Column 'body' is missing. The sink rocketmq needs it, as binary or string.")
    if "topic" not in found and topic is None:
        raise ColumnError("Column 'topic' and option 'topic' are both missing. Give one of them.")
    delays = [name for name in DELAYS if name in found]
    if exactly_once and delays:
        raise ColumnError(
            f"Column '{delays[0]}' cannot be used with delivery={EXACTLY_ONCE}: RocketMQ does not delay messages of transactions."
        )
    return found
