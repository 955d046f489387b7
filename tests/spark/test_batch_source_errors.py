"""The errors of a batch read, in a real Spark: each names the option and has no traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from tests.spark.conftest import Cluster

ErrorOf = Callable[..., str]


@pytest.fixture(scope="module")
def filled(ours: Cluster) -> str:
    """A topic with ten messages in each of two queues."""
    topic = "errors"
    with Admin(ours.nameserver) as admin:
        admin.topics.create(topic, queues=2)
    with Producer(ours.nameserver) as producer:
        for queue_id in range(2):
            for number in range(10):
                producer.send(Message(topic, b"%d" % number), queue=Queue(topic, ours.broker_name, queue_id))
    return topic


@pytest.fixture
def error_of(spark: SparkSession, ours: Cluster) -> ErrorOf:
    """Count the rows of a read that fails, and return Spark's error."""

    def read_and_fail(**options: Any) -> str:
        read = spark.read.format("rocketmq").options(**{"nameserver": ours.nameserver, **options})
        with pytest.raises(PySparkException) as raised:
            read.load().count()
        return str(raised.value)

    return read_and_fail


def check(text: str, sentence: str) -> None:
    assert sentence in text
    assert "Traceback" not in text
    assert "\tat org.apache" not in text, "a Java stack"


def offsets(topic: str, first: int, second: int) -> str:
    return json.dumps({topic: {"0": first, "1": second}})


def test_unknown_option(error_of: ErrorOf, filled: str):
    check(
        error_of(subscribe=filled, startingOffset="earliest"),
        "Option 'startingoffset' does not exist for the source rocketmq. Did you mean",
    )


def test_read_without_a_selection(error_of: ErrorOf):
    check(error_of(), "No topic is selected. Give one of the options 'subscribe', 'subscribePattern' and 'assign'.")


def test_missing_topic(error_of: ErrorOf, filled: str):
    check(error_of(subscribe=f"{filled},nowhere"), "Option 'subscribe' names topic 'nowhere', which does not exist at nameserver")
    check(error_of(assign='{"nowhere":[0]}'), "Option 'assign' names topic 'nowhere'")
    check(error_of(subscribePattern="nowhere.*"), "Option 'subscribePattern' is 'nowhere.*', which matches no topic.")


def test_missing_queue(error_of: ErrorOf, filled: str):
    sentence = f"Option 'assign' names queue 7 of topic '{filled}', whose queues are: broker-a:0, broker-a:1."
    check(error_of(assign=json.dumps({filled: [7]})), sentence)


def test_offsets_that_omit_a_queue_or_name_another(error_of: ErrorOf, filled: str):
    left_out = json.dumps({filled: {"0": 3}})
    check(
        error_of(subscribe=filled, startingOffsets=left_out),
        f"Option 'startingOffsets' does not name queue 1 of {filled} at broker-a",
    )
    other = json.dumps({filled: {"0": 3, "1": 3, "2": 3}})
    check(
        error_of(subscribe=filled, endingOffsets=other),
        f"Option 'endingOffsets' names {filled} 2, which the query does not read. Its queues are:",
    )


def test_offsets_outside_the_queue(error_of: ErrorOf, filled: str):
    beyond = f"Option 'startingOffsets' is 11 for queue 1 of {filled} at broker-a, which has offsets 0 to 10."
    check(error_of(subscribe=filled, startingOffsets=offsets(filled, 0, 11)), beyond)
    check(error_of(subscribe=filled, endingOffsets=offsets(filled, 99, 1)), "Option 'endingOffsets' is 99 for queue 0")
    backwards = {"startingOffsets": offsets(filled, 0, 5), "endingOffsets": offsets(filled, 0, 4)}
    check(
        error_of(subscribe=filled, **backwards),
        f"Option 'endingOffsets' is 4 for queue 1 of {filled} at broker-a, which is before offset 5 of option",
    )


def test_timestamp_after_every_message(error_of: ErrorOf, filled: str):
    sentence = f"Option 'startingTimestamp': queue 0 of {filled} at broker-a has no message stored at 9999999999999 ms or later"
    check(error_of(subscribe=filled, startingTimestamp="9999999999999"), sentence)


def test_stream_option_and_latest_start_in_a_batch(error_of: ErrorOf, filled: str):
    check(error_of(subscribe=filled, maxOffsetsPerTrigger="5"), "Option 'maxOffsetsPerTrigger' has no effect on a batch")
    check(error_of(subscribe=filled, startingOffsets="latest"), "Option 'startingOffsets' cannot be latest in a batch")


def test_invalid_sql_expression(error_of: ErrorOf, filled: str):
    check(error_of(subscribe=filled, sql="colour = = 1"), "Option 'sql' is 'colour = = 1', which a broker refuses:")


def test_unknown_column_and_wrong_type(spark: SparkSession, error_of: ErrorOf, ours: Cluster, filled: str):
    check(
        error_of(subscribe=filled, columns="body,title"),
        "Option 'columns' names title, which no message has. The columns are: topic, broker,",
    )
    read = spark.read.format("rocketmq").options(nameserver=ours.nameserver, subscribe=filled)
    for schema, sentence in (
        ("body string", "Column 'body' of the schema has type string. Its type must be binary."),
        ("title string", "Column 'title' of the schema does not exist"),
    ):
        with pytest.raises(PySparkException) as raised:
            read.schema(schema).load().count()
        check(str(raised.value), sentence)


def test_cluster_that_does_not_answer(error_of: ErrorOf):
    text = error_of(subscribe="orders", nameserver="127.0.0.1:1", retryTimeout="500ms")
    check(text, "The cluster of option 'nameserver' (127.0.0.1:1) did not answer within 0.5 s (option 'retryTimeout')")


def test_cluster_without_tls(error_of: ErrorOf, filled: str):
    check(error_of(subscribe=filled, tls="true", retryTimeout="500ms"), "did not answer within 0.5 s (option 'retryTimeout')")
    check(
        error_of(subscribe=filled, tls="true", tlsCaFile="/nowhere.pem"),
        "Option 'tls' is true, but the files /nowhere.pem cannot be loaded",
    )
