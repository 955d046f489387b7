"""The errors of the sink, in a real Spark: each names the option or column."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.conftest import Cluster

NOWHERE = "127.0.0.1:1"


def error_of(frame, mode: str = "append", **options: str) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 — Spark has several kinds; the sentence is what counts
        frame.write.format("rocketmq").mode(mode).options(**options).save()
    return str(caught.value)


def one_row(spark, columns: str = "'x' as body"):
    return spark.range(1).selectExpr(*columns.split(", "))


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("'x' as body", {"topics": "t"}, "Option 'topics' does not exist for the sink rocketmq. Did you mean 'topic'?"),
        ("'x' as body", {"topic": "t", "delivery": "often"}, "Option 'delivery' is 'often'. It must be at-least-once or"),
        ("'x' as body", {"topic": "t", "retries": "-1"}, "Option 'retries' is '-1'. It must be a whole number"),
        ("'x' as body", {}, "Column 'topic' and option 'topic' are both missing"),
        ("1 as body", {"topic": "t"}, "Column 'body' has type int. The sink rocketmq accepts binary or string."),
        ("'x' as tags", {"topic": "t"}, "Column 'body' is missing. The sink rocketmq needs it, as binary or string."),
        ("'x' as body, 1 as colour", {"topic": "t"}, "Column 'colour' does not exist in the sink rocketmq"),
        (
            "'x' as body, 3 as delayLevel",
            {"topic": "t", "delivery": "exactly-once"},
            "Column 'delayLevel' cannot be used with delivery=exactly-once",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_write_fails_before_a_task_starts(spark, columns: str, options: dict[str, str], sentence: str):
    error = error_of(one_row(spark, columns), nameserver=NOWHERE, **options)
    assert sentence in error
    assert "Task" not in error, "the driver finds the error"
    assert "Traceback" not in error


def test_overwrite_is_refused(spark):
    error = error_of(one_row(spark), mode="overwrite", nameserver=NOWHERE, topic="t")
    assert "A topic cannot be overwritten, only appended to. Use mode('append')." in error


def test_write_id_is_refused_for_a_stream(spark, tmp_path: Path):
    frame = spark.readStream.format("rate").load().selectExpr("cast(value as string) as body")
    writer = frame.writeStream.format("rocketmq").option("nameserver", NOWHERE).option("topic", "t")
    writer = writer.option("delivery", "exactly-once").option("writeId", "w").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True)
    with pytest.raises(Exception, match="Option 'writeId' is for batch writes only"):
        query.start().awaitTermination(60)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ("cast(null as string) as body", "Column 'body' is null in a row. A message needs a body."),
        ("'' as body", "Column 'body' is empty in a row. Brokers refuse messages without a body."),
        ("'x' as body, concat('a',char(1)) as tags", "in a row. It must not contain 0x01 or 0x02, which separate properties"),
        ("'x' as body, map('KEYS','k') as properties", "Column 'properties' has 'KEYS', which RocketMQ reserves"),
    ],
    ids=["null", "empty", "separator", "reserved"],
)
def test_invalid_row_fails_with_the_name_of_its_column(spark, ours: Cluster, topic: str, columns: str, sentence: str):
    error = error_of(one_row(spark, columns), nameserver=ours.nameserver, topic=topic)
    assert sentence in error
    assert "Traceback" not in error


def test_invalid_topic_in_a_row_fails_with_the_name_of_its_column(spark, ours: Cluster):
    error = error_of(one_row(spark, "'x' as body, 'a b' as topic"), nameserver=ours.nameserver)
    assert "Column 'topic' is 'a b' in a row: 'a b' is not a valid topic name" in error


def test_unreachable_cluster_fails_after_retry_timeout(spark, topic: str):
    error = error_of(one_row(spark), nameserver=NOWHERE, topic=topic, retryTimeout="500ms")
    assert f"Rows cannot be sent to topic '{topic}' within 0.5 s (option 'retryTimeout'): No nameserver answers." in error


def test_refusal_of_a_broker_is_quoted(spark, ours: Cluster, topic: str):
    frame = one_row(spark, "repeat('x',5000000) as body")
    error = error_of(frame, nameserver=ours.nameserver, topic=topic, compression="none", maxBodyBytes="10000000")
    assert f"Rows could not be sent to topic '{topic}': " in error
    assert "answered MESSAGE_ILLEGAL (13)" in error


def test_complete_mode_is_refused_for_a_stream(spark, tmp_path: Path):
    frame = spark.readStream.format("rate").load().groupBy("value").count().selectExpr("cast(value as string) as body")
    writer = frame.writeStream.format("rocketmq").outputMode("complete").option("nameserver", NOWHERE).option("topic", "t")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(Exception, match=r"A topic cannot be overwritten, only appended to\. Use outputMode"):
        query.start().awaitTermination(60)
