"""What a user reads when a batch cannot be: one sentence that names the option, with a real Spark around it."""

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

Told = Callable[..., str]


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
def told(spark: SparkSession, ours: Cluster) -> Told:
    """What Spark says when it is to count the rows."""

    def tell(**options: Any) -> str:
        read = spark.read.format("rocketmq").options(**{"nameserver": ours.nameserver, **options})
        with pytest.raises(PySparkException) as raised:
            read.load().count()
        return str(raised.value)

    return tell


def check(text: str, sentence: str) -> None:
    assert sentence in text
    assert "Traceback" not in text
    assert "\tat org.apache" not in text, "a Java stack"


def offsets(topic: str, first: int, second: int) -> str:
    return json.dumps({topic: {"0": first, "1": second}})


def test_an_unknown_option(told: Told, filled: str):
    check(
        told(subscribe=filled, startingOffset="earliest"),
        "Option 'startingoffset' is unknown to the source rocketmq; did you mean",
    )


def test_nothing_to_read(told: Told):
    check(told(), "One of the options 'subscribe', 'subscribePattern' and 'assign' has to say what to read.")


def test_a_topic_that_is_not_there(told: Told, filled: str):
    check(told(subscribe=f"{filled},nowhere"), "Option 'subscribe' names topic 'nowhere', which the nameserver")
    check(told(assign='{"nowhere":[0]}'), "Option 'assign' names topic 'nowhere'")
    check(told(subscribePattern="nowhere.*"), "Option 'subscribePattern': no topic's name matches 'nowhere.*'.")


def test_a_queue_that_is_not_there(told: Told, filled: str):
    sentence = f"Option 'assign' names queue 7 of topic '{filled}', which has: broker-a:0, broker-a:1."
    check(told(assign=json.dumps({filled: [7]})), sentence)


def test_offsets_that_leave_a_queue_out_or_name_another(told: Told, filled: str):
    left_out = json.dumps({filled: {"0": 3}})
    check(
        told(subscribe=filled, startingOffsets=left_out),
        f"Option 'startingOffsets' says nothing of queue 1 of {filled} at broker-a",
    )
    other = json.dumps({filled: {"0": 3, "1": 3, "2": 3}})
    check(
        told(subscribe=filled, endingOffsets=other), f"Option 'endingOffsets' names {filled} 2, but the queues that are read are:"
    )


def test_offsets_that_are_not_there(told: Told, filled: str):
    beyond = f"Option 'startingOffsets' is 11 for queue 1 of {filled} at broker-a, which has offsets 0 to 10."
    check(told(subscribe=filled, startingOffsets=offsets(filled, 0, 11)), beyond)
    check(told(subscribe=filled, endingOffsets=offsets(filled, 99, 1)), "Option 'endingOffsets' is 99 for queue 0")
    backwards = {"startingOffsets": offsets(filled, 0, 5), "endingOffsets": offsets(filled, 0, 4)}
    check(
        told(subscribe=filled, **backwards),
        f"Option 'endingOffsets' is 4 for queue 1 of {filled} at broker-a, before the 5 of option",
    )


def test_a_moment_that_no_message_is_as_late_as(told: Told, filled: str):
    sentence = (
        f"Option 'startingTimestamp': queue 0 of {filled} at broker-a has no message that was stored at 9999999999999 ms or later"
    )
    check(told(subscribe=filled, startingTimestamp="9999999999999"), sentence)


def test_an_option_for_streams_and_a_start_that_reads_nothing(told: Told, filled: str):
    check(told(subscribe=filled, maxOffsetsPerTrigger="5"), "Option 'maxOffsetsPerTrigger' says nothing to a batch")
    check(told(subscribe=filled, startingOffsets="latest"), "Option 'startingOffsets' cannot be latest in a batch")


def test_an_expression_that_is_none(told: Told, filled: str):
    check(told(subscribe=filled, sql="colour = = 1"), "Option 'sql' is 'colour = = 1', and a broker does not take it:")


def test_a_column_that_is_none_or_of_another_type(spark: SparkSession, told: Told, ours: Cluster, filled: str):
    check(told(subscribe=filled, columns="body,title"), "Option 'columns' asks for title, but there are only: topic, broker,")
    read = spark.read.format("rocketmq").options(nameserver=ours.nameserver, subscribe=filled)
    for schema, sentence in (
        ("body string", "Column 'body' of the schema is string, but a message's is binary."),
        ("title string", "Column 'title' of the schema is none that a message has"),
    ):
        with pytest.raises(PySparkException) as raised:
            read.schema(schema).load().count()
        check(str(raised.value), sentence)


def test_a_cluster_that_does_not_answer(told: Told):
    text = told(subscribe="orders", nameserver="127.0.0.1:1", retryTimeout="500ms")
    check(text, "The cluster of option 'nameserver' (127.0.0.1:1) gave no answer within the 0.5 s of option 'retryTimeout'")


def test_a_cluster_that_speaks_no_tls(told: Told, filled: str):
    check(told(subscribe=filled, tls="true", retryTimeout="500ms"), "gave no answer within the 0.5 s of option 'retryTimeout'")
    check(told(subscribe=filled, tls="true", tlsCaFile="/nowhere.pem"), "Option 'tls': the files /nowhere.pem cannot be used")
