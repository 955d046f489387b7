"""`spark.read.format("rocketmq")` in a real Spark, with our broker and with Apache's: every option and column."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.spark.columns import COLUMNS, spark_schema
from tests.spark.conftest import Cluster

Load = Callable[..., DataFrame]


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def producer(cluster: Cluster) -> Any:
    with Producer(cluster.nameserver, group="filling") as empty_topic:
        yield empty_topic


@pytest.fixture
def empty_topic(cluster: Cluster, topic: str) -> str:
    """An empty topic with two queues."""
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(topic, queues=2)
    return topic


@pytest.fixture
def load(spark: SparkSession, cluster: Cluster) -> Load:
    def load_frame(**options: object) -> DataFrame:
        return spark.read.format("rocketmq").option("nameserver", cluster.nameserver).options(**options).load()

    return load_frame


def fill(producer: Producer, cluster: Cluster, topic: str, counts: tuple[int, ...], **given: Any) -> None:
    """Send messages with bodies "queue-number": `counts` has the number of messages for each queue."""
    for queue_id, count in enumerate(counts):
        queue = Queue(topic, cluster.broker_name, queue_id)
        messages = [Message(topic, b"%d-%d" % (queue_id, number), **given) for number in range(count)]
        for first in range(0, count, 100):
            producer.send_batch(messages[first : first + 100], queue=queue)


def bodies(rows: DataFrame) -> list[str]:
    """Return the bodies in the order of queues and offsets."""
    found = rows.select("queueId", "queueOffset", "body").collect()
    return [row.body.decode() for row in sorted(found)]


def expected(*ranges: tuple[int, int, int]) -> list[str]:
    return [f"{queue}-{number}" for queue, start, stop in ranges for number in range(start, stop)]


# --- files that tasks write


def test_tasks_write_parquet_files_with_what_a_read_returns(
    spark: SparkSession, load: Load, producer: Producer, cluster: Cluster, empty_topic: str, tmp_path: Path
):
    fill(producer, cluster, empty_topic, (150, 40), tag="web", keys=["k1", "k2"])
    options = {"subscribe": empty_topic, "maxRecordsPerPartition": 100, "includeProperties": "true"}
    files = load(**options, parquetPath=str(tmp_path / "files"), parquetCompression="lz4").collect()
    ranges = sorted((row.queueId, row.startOffset, row.stopOffset, row.rows) for row in files)
    assert ranges == [(0, 0, 75, 75), (0, 75, 150, 75), (1, 0, 40, 40)]
    assert {row.file for row in files} == {str(path) for path in (tmp_path / "files").iterdir()}
    written, read = spark.read.parquet(str(tmp_path / "files")), load(**options)
    assert [(field.name, field.dataType) for field in written.schema] == [(field.name, field.dataType) for field in read.schema]
    assert sorted(map(str, written.collect())) == sorted(map(str, read.collect()))


# --- what is read


def test_every_message_comes_once(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (300, 170))
    rows = load(subscribe=empty_topic)
    assert bodies(rows) == expected((0, 0, 300), (1, 0, 170))
    assert rows.rdd.getNumPartitions() == 2


def test_frame_returns_the_same_messages_and_a_new_frame_the_new_ones(
    load: Load, producer: Producer, cluster: Cluster, empty_topic: str
):
    fill(producer, cluster, empty_topic, (10,))
    rows = load(subscribe=empty_topic)
    assert rows.count() == 10
    fill(producer, cluster, empty_topic, (5,))
    assert rows.count() == 10
    assert load(subscribe=empty_topic).count() == 15


def test_empty_topic_has_no_rows(load: Load, empty_topic: str):
    assert load(subscribe=empty_topic).count() == 0


def test_every_column_has_the_value_of_the_message(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    before = datetime.now(UTC) - timedelta(seconds=2)
    message = Message(empty_topic, b"body", tag="red", keys=["k1", "k2"], properties={"colour": "blå", "n": "5"})
    receipt = producer.send(message, queue=Queue(empty_topic, cluster.broker_name, 1))
    (row,) = load(subscribe=empty_topic, includeProperties="true").collect()
    found = row.asDict()
    assert set(found) == set(COLUMNS)
    properties = found.pop("properties")
    assert {
        "colour": "blå",
        "n": "5",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "UNIQ_KEY": receipt.message_id,
    }.items() <= properties.items()
    after = datetime.now(UTC) + timedelta(seconds=2)
    for name in ("storeTimestamp", "bornTimestamp"):
        assert before < found.pop(name).astimezone(UTC) < after, name
    assert found.pop("physicalOffset") >= 0
    assert found.pop("bornHost").startswith("127.0.0.1:")
    assert found == {
        "topic": empty_topic,
        "broker": cluster.broker_name,
        "queueId": 1,
        "queueOffset": 0,
        "msgId": receipt.message_id,
        "tags": "red",
        "keys": ["k1", "k2"],
        "body": b"body",
        "reconsumeTimes": 0,
        "sysFlag": found["sysFlag"],
    }


def test_messages_without_tag_and_keys_have_null_and_an_empty_list(load: Load, producer: Producer, empty_topic: str):
    producer.send(Message(empty_topic, b"x"))
    (row,) = load(subscribe=empty_topic, columns="tags,keys,body").collect()
    assert (row.tags, row.keys, row.body) == (None, [], b"x")


def test_option_columns_selects_columns_in_order(load: Load, producer: Producer, empty_topic: str):
    producer.send(Message(empty_topic, b"x"))
    rows = load(subscribe=empty_topic, columns="body, queueid")
    assert rows.columns == ["body", "queueId"]
    assert rows.collect()[0].body == b"x"


def test_schema_selects_columns(spark: SparkSession, cluster: Cluster, producer: Producer, empty_topic: str):
    producer.send(Message(empty_topic, b"x"))
    read = spark.read.format("rocketmq").schema(spark_schema(["queueOffset", "body"]))
    (row,) = read.options(nameserver=cluster.nameserver, subscribe=empty_topic).load().collect()
    assert row.asDict() == {"queueOffset": 0, "body": b"x"}


def test_compressed_batched_and_delayed_messages_come_as_they_were_sent(
    load: Load, producer: Producer, cluster: Cluster, empty_topic: str
):
    large = b"large " * 2_000  # which the client compresses
    producer.send(Message(empty_topic, large))
    producer.send_batch([Message(empty_topic, b"first"), Message(empty_topic, b"second")])
    producer.send(Message(empty_topic, b"late", delay_level=1))
    deadline = time.monotonic() + 60
    while (rows := load(subscribe=empty_topic)).count() < 4:
        assert time.monotonic() < deadline, "the delayed message did not come"
    assert Counter(row.body for row in rows.collect()) == Counter([large, b"first", b"second", b"late"])


def test_bodies_larger_than_a_response_come_whole(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    sent = [bytes([number]) * (40_000 + 9_000 * number) for number in range(40)]  # the first few fit together, then ever fewer
    for body in sent:
        message = Message(empty_topic, body, properties={"n": "1"})
        producer.send(message, queue=Queue(empty_topic, cluster.broker_name, 0))
    rows = load(subscribe=empty_topic, columns="queueOffset,body").collect()
    assert [row.body for row in sorted(rows)] == sent


# --- which queues


def test_several_topics_are_read_together(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    other = empty_topic + "-other"
    with Admin(cluster.nameserver) as admin:
        admin.topics.create(other, queues=1)
    fill(producer, cluster, empty_topic, (3,))
    fill(producer, cluster, other, (4,))
    both = {empty_topic: 3, other: 4}
    for way in ({"subscribe": f"{empty_topic}, {other}"}, {"subscribePattern": empty_topic + ".*"}):
        rows = load(**way).groupBy("topic").count().collect()
        assert {row.topic: row["count"] for row in rows} == both


def test_pattern_matches_the_whole_name(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (3,))
    assert load(subscribePattern=empty_topic).count() == 3
    assert load(subscribePattern=f".{empty_topic[1:]}").count() == 3  # a wildcard in the number would match topics of other tests


def test_single_queues_are_assigned_by_broker_and_number_or_by_number(
    load: Load, producer: Producer, cluster: Cluster, empty_topic: str
):
    fill(producer, cluster, empty_topic, (3, 4))
    assert bodies(load(assign=json.dumps({empty_topic: [f"{cluster.broker_name}:1"]}))) == expected((1, 0, 4))
    assert bodies(load(assign=json.dumps({empty_topic: [0]}))) == expected((0, 0, 3))


# --- from where to where


def test_offsets_set_start_and_end_of_each_queue(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (100, 50))
    starting = json.dumps({empty_topic: {f"{cluster.broker_name}:0": 90, "1": -2}})
    ending = json.dumps({empty_topic: {"0": -1, "1": 7}})
    assert bodies(load(subscribe=empty_topic, startingOffsets=starting, endingOffsets=ending)) == expected(
        (0, 90, 100), (1, 0, 7)
    )
    assert bodies(load(subscribe=empty_topic, startingOffsets="earliest", endingOffsets="latest")) == expected(
        (0, 0, 100), (1, 0, 50)
    )


def test_range_may_be_empty(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (10, 10))
    same = json.dumps({empty_topic: {"0": 5, "1": 10}})
    assert load(subscribe=empty_topic, startingOffsets=same, endingOffsets=same).count() == 0


def test_timestamps_set_start_and_end(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (20, 20))
    time.sleep(0.05)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.05)
    fill(producer, cluster, empty_topic, (7, 8))
    later = expected((0, 0, 7), (1, 0, 8))
    assert bodies(load(subscribe=empty_topic, startingTimestamp=moment)) == later
    assert load(subscribe=empty_topic, endingTimestamp=moment).count() == 40
    each = json.dumps({empty_topic: {"0": moment, "1": 0}})
    assert load(subscribe=empty_topic, startingOffsetsByTimestamp=each).count() == 7 + 28
    assert load(subscribe=empty_topic, endingOffsetsByTimestamp=each).count() == 20
    assert load(subscribe=empty_topic, startingTimestamp=0, endingTimestamp=moment + 3_600_000).count() == 55


def test_timestamp_selects_the_first_message_stored_at_it(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    """startingTimestamp has the precision of a row's storeTimestamp: one millisecond."""
    queue = Queue(empty_topic, cluster.broker_name, 0)
    for number in range(12):
        producer.send(Message(empty_topic, b"%d" % number), queue=queue)
        time.sleep(0.004)
    rows = load(assign=json.dumps({empty_topic: [0]}), columns="queueOffset,storeTimestamp").orderBy("queueOffset").collect()
    stored = [round(row.storeTimestamp.timestamp() * 1000) for row in rows]
    for number in (0, 5, 11):
        first = stored.index(stored[number])
        assigned = json.dumps({empty_topic: [0]})
        assert load(assign=assigned, startingTimestamp=stored[number]).count() == 12 - first
        assert load(assign=assigned, endingTimestamp=stored[number]).count() == first
    assert load(assign=assigned, startingTimestamp=stored[-1] + 1, startingOffsetsByTimestampStrategy="latest").count() == 0


# --- partitions


def test_queues_are_divided_among_tasks(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (300, 100))
    everything = expected((0, 0, 300), (1, 0, 100))
    eight = load(subscribe=empty_topic, minPartitions=8)
    assert eight.rdd.getNumPartitions() == 8
    assert bodies(eight) == everything
    small = load(subscribe=empty_topic, maxRecordsPerPartition=30)
    assert small.rdd.getNumPartitions() == 10 + 4
    assert bodies(small) == everything


# --- filters


def test_broker_filters_tags(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    for number, tag in enumerate(["red", "blue", "green", "", "red"] * 40):
        producer.send(Message(empty_topic, b"%d" % number, tag=tag), queue=Queue(empty_topic, cluster.broker_name, number % 2))
    assert load(subscribe=empty_topic, tags="red").count() == 80
    chosen = load(subscribe=empty_topic, tags="red || green", columns="tags").groupBy("tags").count().collect()
    assert {row.tags: row["count"] for row in chosen} == {"red": 80, "green": 40}
    assert load(subscribe=empty_topic, tags="*").count() == 200
    assert load(subscribe=empty_topic, tags="none").count() == 0


def test_tags_with_equal_hashes_are_distinguished(load: Load, producer: Producer, empty_topic: str):
    producer.send(Message(empty_topic, b"wanted", tag="AaAa"))
    producer.send(Message(empty_topic, b"not", tag="BBBB"))  # Java's hash of both is the same
    assert [bytes(row.body) for row in load(subscribe=empty_topic, tags="AaAa").collect()] == [b"wanted"]


def test_filtered_read_ends_at_the_end_of_the_range(load: Load, producer: Producer, cluster: Cluster, empty_topic: str):
    fill(producer, cluster, empty_topic, (100, 0), tag="red")
    ending = json.dumps({empty_topic: {"0": 37, "1": 0}})
    assert bodies(load(subscribe=empty_topic, tags="red", endingOffsets=ending, fetchMessages=10)) == expected((0, 0, 37))


def test_broker_evaluates_sql_expressions(load: Load, producer: Producer, empty_topic: str):
    for number in range(20):
        producer.send(
            Message(empty_topic, b"%d" % number, properties={"n": str(number), "colour": "red" if number % 2 else "blue"})
        )
    rows = load(subscribe=empty_topic, sql="n >= 10 AND colour = 'red'").collect()
    assert sorted(int(row.body) for row in rows) == [11, 13, 15, 17, 19]


# --- fetching


@pytest.mark.parametrize(
    "options",
    [
        {"fetchMessages": "1"},
        {"fetchMessages": "7", "fetchAhead": "3"},
        {"fetchAhead": "1"},
        {"fetchBytes": "2000"},
        {"fetchAhead": "64", "fetchTimeout": "5s", "requestTimeout": "5s", "retryTimeout": "30s"},
        {"groupIdPrefix": "nightly"},
        {"groupId": "nightly-orders"},
        {"failOnDataLoss": "false"},
    ],
    ids=str,
)
def test_fetch_options_do_not_change_the_result(
    load: Load, producer: Producer, cluster: Cluster, empty_topic: str, options: dict[str, str]
):
    fill(producer, cluster, empty_topic, (150, 33))
    assert bodies(load(subscribe=empty_topic, **options)) == expected((0, 0, 150), (1, 0, 33))


def test_namespace_is_added_and_not_shown(load: Load, cluster: Cluster, empty_topic: str):
    with Admin(cluster.nameserver, namespace="space") as admin:
        admin.topics.create(empty_topic, queues=1)
    with Producer(cluster.nameserver, namespace="space") as producer:
        producer.send(Message(empty_topic, b"in the space"))
    for way in ({"subscribe": empty_topic}, {"subscribePattern": empty_topic}):
        (row,) = load(namespace="space", **way).collect()
        assert (row.topic, row.body) == (empty_topic, b"in the space")
    assert load(subscribe=empty_topic).count() == 0
