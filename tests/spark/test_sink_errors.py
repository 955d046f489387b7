"""What a user reads when rows cannot be written: one sentence that names the option or column, found in Spark's error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import Cluster

NOWHERE = "127.0.0.1:1"


def error_of(frame, mode: str = "append", **options: str) -> str:
    with pytest.raises(Exception) as told:  # noqa: PT011 — Spark has several kinds; the sentence is what counts
        frame.write.format("rocketmq").mode(mode).options(**options).save()
    return str(told.value)


def one_row(spark, columns: str = "'x' as body"):
    return spark.range(1).selectExpr(*columns.split(", "))


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("'x' as body", {"topics": "t"}, "Option 'topics' is unknown to the sink rocketmq; did you mean 'topic'?"),
        ("'x' as body", {"topic": "t", "delivery": "often"}, "Option 'delivery' is 'often', but it has to be at-least-once or"),
        ("'x' as body", {"topic": "t", "retries": "-1"}, "Option 'retries' is '-1', but it has to be a whole number"),
        ("'x' as body", {}, "Column 'topic' is missing, and option 'topic' too"),
        ("1 as body", {"topic": "t"}, "Column 'body' is int, but the sink rocketmq takes binary or string there."),
        ("'x' as tags", {"topic": "t"}, "Column 'body' is missing: the sink rocketmq needs it, as binary or string."),
        ("'x' as body, 1 as colour", {"topic": "t"}, "Column 'colour' is none that the sink rocketmq knows"),
        (
            "'x' as body, 3 as delayLevel",
            {"topic": "t", "delivery": "exactly-once"},
            "Column 'delayLevel' cannot be used with delivery=exactly-once",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_before_a_task_starts(spark, columns: str, options: dict[str, str], sentence: str):
    told = error_of(one_row(spark, columns), nameserver=NOWHERE, **options)
    assert sentence in told
    assert "Task" not in told, "it is found out on the driver"
    assert "Traceback" not in told


def test_a_topic_cannot_be_overwritten(spark):
    told = error_of(one_row(spark), mode="overwrite", nameserver=NOWHERE, topic="t")
    assert "A topic cannot be overwritten, only added to: use mode('append')." in told


def test_a_stream_has_no_write_id(spark, tmp_path: Path):
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) as body")
    writer = frame.writeStream.format("rocketmq").option("nameserver", NOWHERE).option("topic", "t")
    writer = writer.option("delivery", "exactly-once").option("writeId", "w").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True)
    with pytest.raises(Exception, match="Option 'writeId' is for batch writes; a stream is known by its checkpoint"):
        query.start().awaitTermination(60)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("cast(null as string) as body", "Column 'body' is null in a row; a message needs a body."),
        ("'' as body", "Column 'body' is empty in a row; brokers refuse messages without a body."),
        ("'x' as body, concat('a',char(1)) as tags", "Column 'tags' has 0x01 or 0x02 in it, which separate a message's"),
        ("'x' as body, map('KEYS','k') as properties", "Column 'properties' has 'KEYS', which is the system's"),
    ],
    ids=["null", "empty", "separator", "reserved"],
)
def test_what_is_wrong_with_a_row_names_its_column(spark, ours: Cluster, topic: str, columns: str, sentence: str):
    told = error_of(one_row(spark, columns), nameserver=ours.nameserver, topic=topic)
    assert sentence in told
    assert "Traceback" not in told


def test_a_name_that_is_no_topics_names_its_column(spark, ours: Cluster):
    told = error_of(one_row(spark, "'x' as body, 'a b' as topic"), nameserver=ours.nameserver)
    assert "Column 'topic' is 'a b' in a row: 'a b' is not a valid topic name" in told


def test_a_cluster_that_is_not_there_is_named(spark, topic: str):
    told = error_of(one_row(spark), nameserver=NOWHERE, topic=topic, retryTimeout="500ms")
    assert f"Rows cannot be sent to topic '{topic}' within 0.5 s (option 'retryTimeout'): No nameserver answers." in told


def test_a_broker_that_refuses_is_quoted(spark, ours: Cluster, topic: str):
    frame = one_row(spark, "repeat('x',5000000) as body")
    told = error_of(frame, nameserver=ours.nameserver, topic=topic, compression="none", maxBodyBytes="10000000")
    assert f"Rows could not be sent to topic '{topic}': " in told
    assert "answered MESSAGE_ILLEGAL (13)" in told


def test_the_whole_topic_is_never_written_anew_by_a_stream(spark, tmp_path: Path):
    frame = spark.readStream.format("rate").load().groupBy("value").count().selectExpr("cast(value as string) as body")
    writer = frame.writeStream.format("rocketmq").outputMode("complete").option("nameserver", NOWHERE).option("topic", "t")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(Exception, match="A topic cannot be overwritten, only added to: use outputMode"):
        query.start().awaitTermination(60)
