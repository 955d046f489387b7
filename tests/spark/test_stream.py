"""Streams of Spark from topics at our broker and at Apache's into Parquet: each message once, whatever happens to the query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from skyrocket.client.queues import Queue
from skyrocket.spark.source.lag import LagListener, QueryLag, lag
from tests.spark.conftest import Cluster
from tests.support.spark.streams import Scene, rows_of_batches


@pytest.fixture
def scene(spark: Any, ours: Cluster, tmp_path: Path) -> Iterator[Scene]:
    yield from scenes(spark, ours, tmp_path)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def any_scene(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Iterator[Scene]:
    """A scene with our broker, and one with Apache's."""
    yield from scenes(spark, request.getfixturevalue(request.param), tmp_path)


def scenes(spark: Any, cluster: Cluster, folder: Path) -> Iterator[Scene]:
    yield Scene(spark, cluster.nameserver, folder)
    for query in spark.streams.active:
        query.stop()


# --- runs that end


def test_each_available_now_run_writes_the_new_messages_once(any_scene: Scene, topic: str):
    scene = any_scene
    scene.create(topic, 3)
    scene.send(topic, 50)
    scene.run_available(subscribe=topic, commitGroup=f"g-{topic}")
    assert scene.output() == scene.sent
    scene.send(topic, 20)
    query = scene.run_available(subscribe=topic, commitGroup=f"g-{topic}")
    assert scene.output() == scene.sent, "each message once"
    assert rows_of_batches(query) == [20]
    assert scene.spark.read.parquet(str(scene.out)).count() == 70, "as Spark reads the output"
    assert sum(scene.committed(f"g-{topic}", topic).values()) == 70, "the group's offsets include the last batch"


def test_limit_divides_the_backlog_into_batches(any_scene: Scene, topic: str):
    scene = any_scene
    scene.create(topic, 2)
    scene.send(topic, 50)
    query = scene.run_available(subscribe=topic, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15")
    assert rows_of_batches(query) == [20, 20, 10]
    assert scene.output() == scene.sent


def test_once_takes_everything_in_one_batch_despite_the_limit(scene: Scene, topic: str):
    scene.create(topic, 2)
    scene.send(topic, 30)
    frame = (
        scene.spark.readStream.format("rocketmq")
        .options(**scene.options({"subscribe": topic, "maxOffsetsPerTrigger": "4"}))
        .load()
    )
    writer = (
        frame.writeStream.format("parquet").option("path", str(scene.out)).option("checkpointLocation", str(scene.checkpoint))
    )
    query = writer.trigger(once=True).start()
    query.awaitTermination()
    assert rows_of_batches(query) == [30]
    assert scene.output() == scene.sent


def test_broker_filters_tags(any_scene: Scene, topic: str):
    scene = any_scene
    scene.create(topic, 2)
    scene.send(topic, 5, tag="paid")
    scene.send(topic, 5, tag="open")
    wanted = dict.fromkeys(scene.send(topic, 5, tag="late", properties={"days": "9"}), 1)
    scene.run_available(subscribe=topic, tags="late || never", maxOffsetsPerTrigger="7")
    assert scene.output() == wanted


def test_broker_evaluates_sql_expressions(apache_or_filtering: Scene, topic: str):
    scene = apache_or_filtering
    scene.create(topic, 2)
    scene.send(topic, 5, properties={"days": "2"})
    wanted = dict.fromkeys(scene.send(topic, 5, properties={"days": "9"}), 1)
    scene.run_available(subscribe=topic, sql="days > 5")
    assert scene.output() == wanted


@pytest.fixture
def apache_or_filtering(any_scene: Scene) -> Scene:
    """Brokers that evaluate expressions: Apache's by its start settings, ours by a setting made here."""
    from skyrocket.client import sync as client

    with client.Admin(any_scene.nameserver) as admin:
        for broker in admin.cluster.brokers():
            if broker.broker_name == "broker-a":
                admin.cluster.update_config(broker.broker_name, {"enablePropertyFilter": "true"})
    return any_scene


# --- queries that go on


def test_running_query_reads_new_messages_and_reports_its_lag(any_scene: Scene, topic: str):
    scene = any_scene
    seen: list[QueryLag] = []
    listener = LagListener(seen.append)
    scene.spark.streams.addListener(listener)
    try:
        scene.create(topic, 2)
        scene.send(topic, 30)
        query = scene.start(subscribe=topic, maxOffsetsPerTrigger="20", name=f"q{topic}".replace("-", "_"))
        scene.await_output(query)
        scene.send(topic, 5)
        scene.await_output(query)
        scene.await_that(query, lambda: any(each.batch_id == 2 for each in seen))
    finally:
        scene.spark.streams.removeListener(listener)
    assert [each.total for each in seen if each.batch_id in (0, 2)] == [10, 0]
    assert {queue.topic for queue in seen[0].lag} == {topic}
    assert sum(lag(query.lastProgress).values()) == 0


def test_restarted_query_loses_and_repeats_nothing(scene: Scene, topic: str):
    scene.create(topic, 2)
    for _ in range(3):
        scene.send(topic, 20)
        query = scene.start(subscribe=topic, maxOffsetsPerTrigger="7")
        scene.await_that(query, lambda: scene.output() != {})
        query.stop()
        scene.send(topic, 10)
    query = scene.start(subscribe=topic)
    scene.await_output(query)


def test_new_query_starts_at_latest(scene: Scene, topic: str):
    scene.create(topic, 2)
    scene.send(topic, 10)
    scene.sent.clear()
    query = scene.start(subscribe=topic, startingOffsets="latest")
    scene.await_that(query, lambda: query.lastProgress is not None)
    scene.send(topic, 10)
    scene.await_output(query)


def test_new_queues_and_topics_are_read_from_their_first_message(scene: Scene, topic: str):
    scene.create(f"{topic}-a", 1)
    query = scene.start(subscribePattern=f"{topic}-.*", startingOffsets="latest")
    scene.await_that(query, lambda: query.lastProgress is not None)
    scene.create(f"{topic}-a", 3)
    scene.create(f"{topic}-b", 2)
    scene.send(f"{topic}-a", 9)
    scene.send(f"{topic}-b", 6)
    scene.await_output(query)


def test_batch_waits_for_min_offsets(scene: Scene, topic: str):
    scene.create(topic, 1)
    scene.send(topic, 1)
    query = scene.start(subscribe=topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    scene.await_output(query)
    for _ in range(10):
        scene.send(topic, 1)
    scene.await_output(query)
    scene.await_that(query, lambda: len(rows_of_batches(query)) > 1)  # a batch is reported a moment after it is written
    assert rows_of_batches(query) == [1, 10]


# --- what does not fit


def test_checkpoint_of_another_topic_fails_the_query(scene: Scene, topic: str):
    scene.create(topic, 1)
    scene.create(f"{topic}-other", 1)
    scene.send(topic, 3)
    scene.run_available(subscribe=topic)
    with pytest.raises(StreamingQueryException, match=rf"The checkpoint is at offset 3 of queue 0 of {topic} at"):
        scene.run_available(subscribe=f"{topic}-other")
    scene.send(f"{topic}-other", 2)
    scene.run_available(subscribe=f"{topic}-other", failOnDataLoss="false")
    assert scene.output() == scene.sent


def test_missing_topic_fails_the_query(scene: Scene):
    with pytest.raises(StreamingQueryException, match=r"Option 'subscribe' names topic 'nowhere'"):
        scene.run_available(subscribe="nowhere")


def test_checkpoint_beyond_the_end_of_a_queue_fails_the_query_or_is_skipped(scene: Scene, topic: str):
    """After a reset, a broker has fewer messages than the checkpoint."""
    scene.create(topic, 1)
    scene.send(topic, 3)
    scene.run_available(subscribe=topic)
    offsets = max((scene.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets.write_text(offsets.read_text().replace(':0\\": 3', ':0\\": 8').replace(':0": 3', ':0": 8'))
    (offsets.parent / f".{offsets.name}.crc").unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException, match=r"ends at offset 3, but the checkpoint is at 8"):
        scene.run_available(subscribe=topic)
    scene.run_available(subscribe=topic, failOnDataLoss="false")
    scene.send(topic, 2)
    scene.run_available(subscribe=topic, failOnDataLoss="false")
    assert scene.output() == scene.sent


def test_lag_names_each_queue(scene: Scene, topic: str):
    scene.create(topic, 2)
    scene.send(topic, 6, queue=Queue(topic, "broker-a", 1))
    query = scene.start(subscribe=topic, maxOffsetsPerTrigger="2", every="1 hour")
    scene.await_that(query, lambda: query.lastProgress is not None)
    assert lag(query.lastProgress) == {Queue(topic, "broker-a", 0): 0, Queue(topic, "broker-a", 1): 4}
