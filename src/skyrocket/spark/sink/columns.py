"""The columns that the sink takes, and whether a schema is made of them: looked at on the driver, before a task starts."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from skyrocket.spark.errors import ColumnError
from skyrocket.spark.options.sink_options import EXACTLY_ONCE


class SinkColumn(NamedTuple):
    kinds: tuple[str, ...]  # as Spark writes types
    meaning: str


SINK_COLUMNS: Final = {
    "body": SinkColumn(("binary", "string"), "the message's body; a text is sent as UTF-8. Needed, and never null or empty"),
    "topic": SinkColumn(("string",), "where it goes, if no option `topic` says so for all rows"),
    "tags": SinkColumn(("string",), "its tag"),
    "keys": SinkColumn(("string", "array<string>"), "its keys; in a text, with blanks between"),
    "properties": SinkColumn(("map<string,string>",), "its properties; the system's names are refused"),
    "shardingKey": SinkColumn(("string",), "rows of a task that have the same stay in order, in one queue"),
    "delayLevel": SinkColumn(("int", "bigint", "smallint", "tinyint"), "it is delivered after 1 s, 5 s, 10 s, … 2 h: 1 to 18"),
    "delayMs": SinkColumn(("bigint", "int"), "it is delivered so many milliseconds later"),
    "deliverAt": SinkColumn(("timestamp", "bigint"), "it is delivered then; a number is milliseconds since 1970"),
}
ALIASES: Final = {"value": "body"}  # what Spark's Kafka sink calls it
DELAYS: Final = ("delayLevel", "delayMs", "deliverAt")

_names = {name.lower(): name for name in (*SINK_COLUMNS, *ALIASES)}


def sink_columns(schema: StructType, *, topic: str | None, exactly_once: bool) -> dict[str, int]:
    """Where each column is: body, topic, … -> its place in a row. ColumnError when that cannot be written."""
    found: dict[str, int] = {}
    for place, field in enumerate(schema.fields):
        name = _names.get(field.name.lower())
        if name is None:
            there = ", ".join(SINK_COLUMNS)
            raise ColumnError(f"Column '{field.name}' is none that the sink rocketmq knows; there are: {there}.")
        name = ALIASES.get(name, name)
        if name in found:
            other = schema.fields[found[name]].name
            raise ColumnError(f"Columns '{other}' and '{field.name}' both are the {name}; leave one of them out.")
        kind, kinds = field.dataType.simpleString(), SINK_COLUMNS[name].kinds
        if kind not in kinds:
            raise ColumnError(f"Column '{field.name}' is {kind}, but the sink rocketmq takes {' or '.join(kinds)} there.")
        found[name] = place
    if "body" not in found:
        raise ColumnError("Column 'body' is missing: the sink rocketmq needs it, as binary or string.")
    if "topic" not in found and topic is None:
        raise ColumnError("Column 'topic' is missing, and option 'topic' too: one of them has to say where rows go.")
    delays = [name for name in DELAYS if name in found]
    if exactly_once and delays:
        raise ColumnError(f"Column '{delays[0]}' cannot be used with delivery={EXACTLY_ONCE}: RocketMQ delays no transactions.")
    return found
