"""The sink in Spark: every column and option, in batches and streams, read back with the client, with both brokers."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from skyrocket.client import Received
from skyrocket.client.producer.queue_selection import by_hash
from skyrocket.client.queues import Queue
from skyrocket.protocol.sysflag import COMPRESSED
from skyrocket.spark.options.sink_options import sink_options
from tests.spark.conftest import Cluster
from tests.spark.sink_scenes import commit, messages, stage

EVERY_COLUMN = "body binary, tags string, keys array<string>, properties map<string,string>, shardingKey string, topic string"


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.interop)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return request.getfixturevalue(request.param)


def write(frame, cluster: Cluster, topic: str | None, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("rocketmq").mode(mode).option("nameserver", cluster.nameserver).options(**options)
    (writer if topic is None else writer.option("topic", topic)).save()


def read(cluster: Cluster, topic: str, least: int = 1) -> list[Received]:
    return asyncio.run(messages(cluster.nameserver, topic, least))


def bodies(cluster: Cluster, topic: str) -> list[str]:
    return sorted(message.body.decode() for message in read(cluster, topic))


def numbers(spark, count: int, partitions: int = 2):
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as body")


# --- columns


def test_every_column_becomes_a_part_of_the_message(spark, cluster: Cluster, topic: str):
    rows = [
        (b"one", "red", ["k1", "k2"], {"a": "1", "ü": "ö"}, "shard", f"{topic}-other"),
        (b"two", None, None, None, None, topic),
    ]
    write(spark.createDataFrame(rows, EVERY_COLUMN), cluster, None)
    (one,) = read(cluster, f"{topic}-other")
    assert (one.body, one.tag, one.keys) == (b"one", "red", ["k1", "k2"])
    assert (one.properties["a"], one.properties["ü"], one.properties["__SHARDINGKEY"]) == ("1", "ö", "shard")
    assert len(one.message_id) == 32
    (two,) = read(cluster, topic)
    assert (two.body, two.tag, two.keys) == (b"two", "", [])


def test_option_topic_overrides_the_column_as_in_kafkas_sink(spark, ours: Cluster, topic: str):
    write(spark.createDataFrame([("x", f"{topic}-other"), ("y", None)], "body string, topic string"), ours, topic)
    assert bodies(ours, topic) == ["x", "y"]


def test_value_and_strings_are_accepted(spark, ours: Cluster, topic: str):
    write(spark.createDataFrame([("hällo", "a b")], "value string, keys string"), ours, topic)
    (message,) = read(ours, topic)
    assert (message.body.decode(), message.keys) == ("hällo", ["a", "b"])


def test_rows_of_a_sharding_key_stay_in_order_in_the_queue_of_javas_selector(spark, cluster: Cluster, topic: str):
    frame = spark.range(0, 3_000, 1, 1).selectExpr("cast(id as string) as body", "concat('key', id % 5) as shardingKey")
    write(frame, cluster, topic, batchMessages="70")
    found = read(cluster, topic, 3_000)
    assert len(found) == 3_000
    by_key: dict[str, list[tuple[int, int]]] = {}
    for message in sorted(found, key=lambda message: (message.queue_id, message.queue_offset)):
        by_key.setdefault(message.properties["__SHARDINGKEY"], []).append((message.queue_id, int(message.body)))
    queues = [Queue(topic, found[0].broker_name, number) for number in range(4)]
    for key, places in by_key.items():
        assert {queue_id for queue_id, _ in places} == {by_hash(queues, key).queue_id}, key
        assert [number for _, number in places] == sorted(number for _, number in places), f"{key} is out of order"


def test_each_kind_of_delay_is_delivered_late(spark, cluster: Cluster, topic: str):
    began = datetime.now(UTC)
    at = began + timedelta(seconds=2)
    rows = [("level", 1, None, None), ("later", None, 1_500, None), ("at", None, None, at), ("now", None, None, None)]
    frame = spark.createDataFrame(rows, "body string, delayLevel int, delayMs bigint, deliverAt timestamp").coalesce(1)
    write(frame, cluster, topic)
    deadline = time.monotonic() + 30
    while len(found := {message.body.decode(): message for message in read(cluster, topic, 0)}) < 4:
        assert time.monotonic() < deadline, f"only {list(found)} came"
        time.sleep(0.2)
    came_ms = {name: message.stored_ms for name, message in found.items()}
    began_ms = began.timestamp() * 1000  # not the time of "now": a busy broker may store it last
    assert came_ms["level"] >= began_ms + 1_000
    assert came_ms["later"] >= began_ms + 1_000
    assert came_ms["at"] >= at.timestamp() * 1000 - 1_000


# --- options


def test_many_rows_of_many_tasks_all_arrive_once(spark, cluster: Cluster, topic: str):
    write(numbers(spark, 20_000, 4), cluster, topic)
    found = read(cluster, topic, 20_000)
    assert Counter(int(message.body) for message in found) == Counter(range(20_000))
    assert len({message.message_id for message in found}) == 20_000
    assert len({message.queue_id for message in found}) > 1, "rows go to several queues"


@pytest.mark.parametrize(
    "options",
    [
        {"batchBytes": "1024"},
        {"batchMessages": "1"},
        {"maxInFlight": "1"},
        {"retries": "0", "sendTimeout": "20s"},
        {"group": "my-own-group"},
        {"delivery": "exactly-once", "maxInFlight": "3"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_all_rows_arrive_with_any_batch_size(spark, ours: Cluster, topic: str, options: dict[str, str]):
    write(numbers(spark, 500), ours, topic, **options)
    assert bodies(ours, topic) == sorted(map(str, range(500)))


@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd", "none"])
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_large_bodies_are_compressed(spark, cluster: Cluster, topic: str, kind: str, delivery: str):
    text = "x" * 5_000
    write(spark.createDataFrame([(text,), ("small",)], "body string"), cluster, topic, compression=kind, delivery=delivery)
    found = {len(message.body): message for message in read(cluster, topic)}
    assert found[5_000].body.decode() == text
    assert bool(found[5_000].record.sys_flag & COMPRESSED) == (kind != "none")
    assert not found[5].record.sys_flag & COMPRESSED


def test_compress_over_sets_the_minimum_size(spark, ours: Cluster, topic: str):
    write(spark.createDataFrame([("x" * 300,), ("y" * 100,)], "body string"), ours, topic, compressOver="200")
    assert {len(m.body): bool(m.record.sys_flag & COMPRESSED) for m in read(ours, topic)} == {300: True, 100: False}


def test_namespace_is_added_to_topics(spark, ours: Cluster, topic: str):
    write(numbers(spark, 3), ours, topic, namespace="shop")
    assert bodies(ours, f"shop%{topic}") == ["0", "1", "2"]


def test_empty_frame_writes_nothing(spark, ours: Cluster, topic: str):
    for delivery in ("at-least-once", "exactly-once"):
        write(numbers(spark, 3).where("body > 9"), ours, topic, delivery=delivery)
    write(numbers(spark, 1, 1), ours, topic)
    assert bodies(ours, topic) == ["0"]


# --- exactly once, batch


def test_second_write_with_the_same_id_adds_nothing(spark, cluster: Cluster, topic: str):
    for _ in range(2):
        write(numbers(spark, 300), cluster, topic, delivery="exactly-once", writeId=f"nightly {topic}")
    assert bodies(cluster, topic) == sorted(map(str, range(300)))
    write(numbers(spark, 3), cluster, topic, delivery="exactly-once")
    assert len(read(cluster, topic, 303)) == 303


def test_no_row_of_a_batch_with_a_failed_task_is_visible(spark, ours: Cluster, topic: str):
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, null, cast(id as string)) as body")
    with pytest.raises(Exception, match="Column 'body' is null in a row"):
        write(frame, ours, topic, delivery="exactly-once", writeId=f"broken {topic}")
    write(numbers(spark, 1, 1), ours, topic)
    assert bodies(ours, topic) == ["0"]


# --- streams


def stream(frame, cluster: Cluster, topic: str, checkpoint: Path, **options: str) -> None:
    """Stream everything that exists, in as many batches as the source makes."""
    writer = frame.writeStream.format("rocketmq").option("nameserver", cluster.nameserver).option("topic", topic)
    query = writer.options(**options).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120), "the query did not end"
    finally:
        query.stop()


def file_source(spark, folder: Path, files: int, rows: int):
    """Write one file with `rows` rows for each batch."""
    folder.mkdir(exist_ok=True)
    for number in range(files):
        file = folder / f"{number:03}.txt"
        if not file.exists():
            file.write_text("".join(f"{number}-{row}\n" for row in range(rows)))
            moment = 1_700_000_000 + number
            os.utime(file, (moment, moment))
    return spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(str(folder)).selectExpr("value as body")


def expected(files: int, rows: int) -> list[str]:
    return sorted(f"{number}-{row}" for number in range(files) for row in range(rows))


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_restarted_stream_continues_where_it_stopped(spark, cluster: Cluster, topic: str, tmp_path: Path, delivery: str):
    for files in (2, 3):
        stream(file_source(spark, tmp_path / "in", files, 50), cluster, topic, tmp_path / "check", delivery=delivery)
        assert bodies(cluster, topic) == expected(files, 50)


def test_each_run_of_a_stream_takes_an_epoch_in_the_ledger(spark, ours: Cluster, topic: str, tmp_path: Path):
    options = {"delivery": "exactly-once", "ledgerTopic": f"{topic}-ledger"}
    for files in (2, 3):
        stream(file_source(spark, tmp_path / "in", files, 5), ours, topic, tmp_path / "check", **options)
    entries = [message.properties for message in sorted(read(ours, f"{topic}-ledger"), key=lambda each: each.queue_offset)]
    found = [(entry["SR_EPOCH"], entry["SR_STATE"], entry["SR_BATCH"]) for entry in entries]
    assert found == [
        ("1", "opened", "-1"),
        ("1", "committing", "0"),
        ("1", "committed", "0"),
        ("1", "committing", "1"),
        ("1", "committed", "1"),
        ("2", "opened", "-1"),
        ("2", "committing", "2"),
        ("2", "committed", "2"),
    ]
    assert len({entry["SR_RUN"] for entry in entries}) == 2
    assert len({entry["SR_QUERY"] for entry in entries}) == 1


def test_running_stream_stops_when_a_newer_driver_takes_over(spark, ours: Cluster, topic: str, tmp_path: Path):
    options = {"nameserver": ours.nameserver, "topic": topic, "delivery": "exactly-once", "settleTime": "100ms"}
    frame = file_source(spark, tmp_path / "in", 1, 5)
    query = frame.writeStream.format("rocketmq").options(checkpointLocation=str(tmp_path / "check"), **options).start()
    try:
        query.processAllAvailable()
        asyncio.run(commit_as_newer_driver(options, query.id))
        file_source(spark, tmp_path / "in", 2, 5)
        with pytest.raises(StreamingQueryException, match=f"Batch 1 of query {query.id} is not committed: another driver"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert bodies(ours, topic) == sorted([*expected(1, 5), "by the newer driver"])


async def commit_as_newer_driver(options: dict[str, str], query_id: str) -> None:
    newer = sink_options(options)
    staged = await stage(newer, pa.record_batch({"body": [b"by the newer driver"]}), query=query_id, batch_id=1)
    await commit(newer, staged, query=query_id, batch_id=1)


def test_replayed_batch_is_not_delivered_again(spark, cluster: Cluster, topic: str, tmp_path: Path):
    """A driver may die after the sink's commit and before Spark records it."""
    for times in range(3):
        stream(file_source(spark, tmp_path / "in", 2, 40), cluster, topic, tmp_path / "check", delivery="exactly-once")
        assert bodies(cluster, topic) == expected(2, 40), f"after {times} replays"
        done = tmp_path / "check" / "commits"
        (done / "1").unlink()
        (done / ".1.crc").unlink(missing_ok=True)


def test_replayed_batch_comes_twice_with_at_least_once(spark, ours: Cluster, topic: str, tmp_path: Path):
    for _ in range(2):
        stream(file_source(spark, tmp_path / "in", 1, 5), ours, topic, tmp_path / "check")
        for note in (tmp_path / "check" / "commits").glob("*0*"):
            note.unlink()
    assert bodies(ours, topic) == sorted(2 * expected(1, 5))
