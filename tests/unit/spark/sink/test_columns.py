"""The schemas that the sink accepts, and the error for each other schema."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from skyrocket.spark.errors import ColumnError
from skyrocket.spark.sink.columns import SINK_COLUMNS, sink_columns

TEXT, NUMBER = StringType(), IntegerType()
TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        *(BinaryType(), ByteType(), DateType(), DoubleType(), NUMBER, LongType(), ShortType(), TEXT, TimestampType()),
        *(ArrayType(TEXT), ArrayType(NUMBER), MapType(TEXT, TEXT), MapType(TEXT, NUMBER)),
    )
}


def columns(schema: str, *, topic: str | None = "t", exactly_once: bool = False) -> dict[str, int]:
    """Parse `schema`, written as in SQL. Spark can parse it only in Java."""
    parsed = StructType()
    for field in schema.split(", "):
        name, _, kind = field.partition(" ")
        parsed.add(name, TYPES[kind])
    return sink_columns(parsed, topic=topic, exactly_once=exactly_once)


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_only_the_body_is_required(kind: str):
    assert columns(f"body {kind}") == {"body": 0}


def test_value_is_an_alias_of_body_as_in_kafkas_sink():
    assert columns("topic string, value binary", topic=None) == {"topic": 0, "body": 1}


def test_column_names_are_case_insensitive():
    assert columns("BODY binary, shardingkey string") == {"body": 0, "shardingKey": 1}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, column in SINK_COLUMNS.items() for kind in column.kinds])
def test_every_column_is_accepted_in_each_of_its_types(name: str, kind: str):
    assert name in columns(f"{name} {kind}" if name == "body" else f"body binary, {name} {kind}")


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("tags string", "Column 'body' is missing. The sink rocketmq needs it, as binary or string."),
        ("body int", "Column 'body' has type int. The sink rocketmq accepts binary or string."),
        ("value double", "Column 'value' has type double. The sink rocketmq accepts binary or string."),
        ("body binary, tags array<string>", "Column 'tags' has type array<string>. The sink rocketmq accepts string."),
        (
            "body binary, keys array<int>",
            "Column 'keys' has type array<int>. The sink rocketmq accepts string or array<string>.",
        ),
        (
            "body binary, properties map<string,int>",
            "Column 'properties' has type map<string,int>. The sink rocketmq accepts map<string,string>.",
        ),
        ("body binary, deliverAt date", "Column 'deliverAt' has type date. The sink rocketmq accepts timestamp or bigint."),
        ("body binary, value string", "Columns 'body' and 'value' are both the body. Leave one of them out."),
    ],
)
def test_invalid_schema_is_refused_with_a_clear_message(schema: str, sentence: str):
    with pytest.raises(ColumnError) as caught:
        columns(schema)
    assert str(caught.value) == sentence


def test_error_for_an_unknown_column_lists_the_columns():
    with pytest.raises(
        ColumnError, match=r"^Column 'colour' does not exist in the sink rocketmq. Its columns are: body, topic, tags, "
    ):
        columns("body binary, colour string")


def test_schema_without_a_topic_needs_the_option():
    with pytest.raises(ColumnError, match=r"^Column 'topic' and option 'topic' are both missing. "):
        columns("body binary", topic=None)


@pytest.mark.parametrize("delay", ["delayLevel int", "delayMs bigint", "deliverAt timestamp"])
def test_delays_are_refused_with_exactly_once(delay: str):
    name = delay.split(" ", maxsplit=1)[0]
    with pytest.raises(
        ColumnError, match=f"^Column '{name}' cannot be used with delivery=exactly-once: RocketMQ does not delay "
    ):
        columns(f"body binary, {delay}", exactly_once=True)
