"""Which schemas the sink takes, and the sentence about each that it does not."""

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
    """`schema` as SQL writes it, which only Spark's Java could read."""
    made = StructType()
    for field in schema.split(", "):
        name, _, kind = field.partition(" ")
        made.add(name, TYPES[kind])
    return sink_columns(made, topic=topic, exactly_once=exactly_once)


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_a_body_is_all_that_is_needed(kind: str):
    assert columns(f"body {kind}") == {"body": 0}


def test_value_is_another_name_of_the_body_as_in_kafkas_sink():
    assert columns("topic string, value binary", topic=None) == {"topic": 0, "body": 1}


def test_names_are_found_whatever_their_case():
    assert columns("BODY binary, shardingkey string") == {"body": 0, "shardingKey": 1}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, column in SINK_COLUMNS.items() for kind in column.kinds])
def test_every_column_is_taken_in_each_of_its_types(name: str, kind: str):
    assert name in columns(f"{name} {kind}" if name == "body" else f"body binary, {name} {kind}")


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("tags string", "Column 'body' is missing: the sink rocketmq needs it, as binary or string."),
        ("body int", "Column 'body' is int, but the sink rocketmq takes binary or string there."),
        ("value double", "Column 'value' is double, but the sink rocketmq takes binary or string there."),
        ("body binary, tags array<string>", "Column 'tags' is array<string>, but the sink rocketmq takes string there."),
        (
            "body binary, keys array<int>",
            "Column 'keys' is array<int>, but the sink rocketmq takes string or array<string> there.",
        ),
        (
            "body binary, properties map<string,int>",
            "Column 'properties' is map<string,int>, but the sink rocketmq takes map<string,string> there.",
        ),
        ("body binary, deliverAt date", "Column 'deliverAt' is date, but the sink rocketmq takes timestamp or bigint there."),
        ("body binary, value string", "Columns 'body' and 'value' both are the body; leave one of them out."),
    ],
)
def test_what_cannot_be_written_is_refused_with_a_sentence(schema: str, sentence: str):
    with pytest.raises(ColumnError) as told:
        columns(schema)
    assert str(told.value) == sentence


def test_an_unknown_column_is_named_beside_those_there_are():
    with pytest.raises(
        ColumnError, match=r"^Column 'colour' is none that the sink rocketmq knows; there are: body, topic, tags, "
    ):
        columns("body binary, colour string")


def test_rows_have_to_go_somewhere():
    with pytest.raises(ColumnError, match=r"^Column 'topic' is missing, and option 'topic' too: "):
        columns("body binary", topic=None)


@pytest.mark.parametrize("delay", ["delayLevel int", "delayMs bigint", "deliverAt timestamp"])
def test_delays_are_refused_with_exactly_once(delay: str):
    name = delay.split(" ", maxsplit=1)[0]
    with pytest.raises(ColumnError, match=f"^Column '{name}' cannot be used with delivery=exactly-once: RocketMQ delays no "):
        columns(f"body binary, {delay}", exactly_once=True)
