"""The errors of a running stream, in a real Spark: each ends with one sentence, wherever it occurs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from skyrocket.client.sync import Admin, Message, Producer
from tests.spark.conftest import Cluster

CREATE = "Create it with: skyrocket topic create nowhere"
NULL_BODY = "Column 'body' is null in a row. A message needs a body."


@pytest.fixture(scope="module")
def filled(ours: Cluster) -> str:
    """A topic with a message."""
    topic = "stream-errors"
    with Admin(ours.nameserver) as admin:
        admin.topics.create(topic, queues=1)
    with Producer(ours.nameserver) as producer:
        producer.send(Message(topic, b"x"))
    return topic


def write_null_body(frame: Any, nameserver: str, topic: str) -> None:
    nulls = frame.selectExpr("cast(null as string) as body")
    nulls.write.format("rocketmq").mode("append").options(nameserver=nameserver, topic=topic).save()


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("source", "Option 'subscribe' names topic 'nowhere', which does not exist at nameserver {nameserver}. " + CREATE),
        ("writer", "Option 'topics' does not exist for the sink rocketmq. Did you mean 'topic'?"),
        ("task", NULL_BODY),
        ("foreach", NULL_BODY),
    ],
)
def test_stream_ends_with_one_sentence(
    spark: Any, ours: Cluster, filled: str, topic: str, tmp_path: Path, case: str, sentence: str
):
    options = {
        "nameserver": ours.nameserver,
        "subscribe": "nowhere" if case == "source" else filled,
        "startingOffsets": "earliest",
    }
    frame = spark.readStream.format("rocketmq").options(**options).load()
    body = frame.selectExpr("cast(null as string) as body" if case == "task" else "body")
    sink = {"nameserver": ours.nameserver, "topics" if case == "writer" else "topic": topic}
    writer = (
        frame.writeStream.foreachBatch(lambda batch, _: write_null_body(batch, ours.nameserver, topic))
        if case == "foreach"
        else body.writeStream.format("rocketmq").options(**sink)
    )
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException) as raised:
        query.awaitTermination(120)
    first, _, message = str(raised.value).partition(" terminated with exception: ")
    assert first.startswith("[STREAM_FAILED] Query [id = ")
    for text in (message, str(query.exception())):
        assert text.partition("Error: ")[2] == sentence.format(nameserver=ours.nameserver)
