"""`spark.read.format("rocketmq-store")` in a real Spark. tests/unit/spark/offline compares what it reads."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from skyrocket.store.message_store import MessageStore
from skyrocket.store.offline.offline_store import OfflineStore
from tests.support.stores.sample_stores import NOW_MS, SMALL, flip, golden_store, sample_store
from tests.support.stores.store_messages import number_of, numbered

COUNT = 300


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_store(tmp_path_factory.mktemp("sample") / "store", COUNT)


def load(spark: Any, directory: Path | str, **options: object) -> Any:
    return spark.read.format("rocketmq-store").options(**options).load(str(directory))


def test_all_columns_of_all_messages_reach_spark(spark: Any, store: Path):
    frame = load(spark, store, includeProperties=True)
    rows = frame.orderBy("physicalOffset").collect()
    with OfflineStore(store) as offline:
        records = [found.record for found in offline.records() if not found.record.sys_flag & 0x4]
    assert [row.body for row in rows] == [record.body for record in records]
    assert [(row.topic, row.queueId, row.queueOffset) for row in rows] == [(r.topic, r.queue_id, r.queue_offset) for r in records]
    assert rows[0].broker == "store"
    assert rows[0].properties["TAGS"] == rows[0].tags == "Tag0"
    assert rows[0].bornHost == "127.0.0.1:10911"
    assert frame.selectExpr("min(unix_millis(storeTimestamp))").first()[0] == NOW_MS


def test_store_of_apache_is_read(spark: Any, tmp_path: Path):
    golden = golden_store(tmp_path / "golden")
    frame = load(spark, golden, columns="topic,broker,body")
    counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
    with OfflineStore(golden) as offline:
        queued = dict.fromkeys([queue.topic for queue in offline.queues()], 0)
        for queue in offline.queues():
            queued[queue.topic] += queue.max_offset - queue.min_offset
    assert counts == {topic: count for topic, count in queued.items() if not topic.upper().startswith(("RMQ_SYS_", "SCHEDULE_"))}
    assert {row.broker for row in frame.select("broker").distinct().collect()} == {"broker-a"}


def test_load_takes_several_directories(spark: Any, store: Path, tmp_path: Path):
    copy = shutil.copytree(store, tmp_path / "another")
    frame = spark.read.format("rocketmq-store").option("columns", "broker,queueOffset").load([str(store), str(copy)])
    counts = {row["broker"]: row["count"] for row in frame.groupBy("broker").count().collect()}
    assert set(counts) == {"store", "another"}
    assert counts["store"] == counts["another"] == load(spark, store).count()


def test_topics_times_and_a_user_schema(spark: Any, store: Path):
    chosen = load(spark, store, topics="topic-1", startingTimestamp=NOW_MS + 20 * 700, endingTimestamp=NOW_MS + 40 * 700)
    assert chosen.count() == 24  # of 80 messages a third, without those that are only prepared
    frame = spark.read.format("rocketmq-store").schema("queueOffset long, topic string").load(str(store))
    assert frame.columns == ["queueOffset", "topic"]
    assert frame.count() == load(spark, store).count()


def test_damage_is_skipped_and_can_be_listed(spark: Any, store: Path, tmp_path: Path):
    copy = shutil.copytree(store, tmp_path / "copy")
    with OfflineStore(copy) as offline:
        victim = [found for found in offline.records() if found.size > 300 and not found.record.sys_flag][40]
    flip(
        copy / "commitlog" / f"{victim.offset - victim.offset % SMALL.segment_bytes:020d}",
        victim.offset % SMALL.segment_bytes + 99,
    )
    assert load(spark, copy).count() == load(spark, store).count() - 1
    (row,) = load(spark, copy, mode="damage").collect()
    assert (row.offset, row.size, row.broker) == (victim.offset, victim.size, "copy")


def test_store_can_be_read_while_it_is_written(spark: Any, tmp_path: Path):
    """Each read returns at least the messages that existed at its start, each whole and once."""
    store = MessageStore(tmp_path / "store", SMALL)
    store.open()
    store.append(numbered(200), NOW_MS)
    done, count = threading.Event(), 200

    def write() -> None:
        nonlocal count
        while not done.wait(0.01) and count < 20_000:
            store.append(numbered(10, first=count), NOW_MS + count)
            count += 10

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            known = count
            rows = load(spark, tmp_path / "store", columns="queueOffset,body").collect()
            assert sorted(row.queueOffset for row in rows) == list(range(len(rows)))
            assert sorted(number_of(row.body) for row in rows) == list(range(len(rows)))
            assert len(rows) >= known
    finally:
        done.set()
        writer.join()
        store.close()


def test_directory_of_a_running_broker_is_read(spark: Any, ours: Any, topic: str):
    from skyrocket.client.message import Message
    from skyrocket.client.sync import Producer

    with Producer(ours.nameserver) as producer:
        sent = [producer.send(Message(topic, b"body %d" % number, tag="a")) for number in range(20)]
    rows = load(spark, ours.store, topic=topic).collect()
    assert {row.msgId for row in rows} == {receipt.message_id for receipt in sent}
    assert {row.broker for row in rows} == {ours.broker_name}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"path": "/nowhere"},
            (
                "Option 'path' names a directory that cannot be read: "
                "/nowhere is not a store: it has neither 'commitlog' nor 'checkpoint'."
            ),
        ),
        ({}, "Option 'path' is missing. Pass the store directory to load()."),
        (
            {"path": "/nowhere", "topik": "x"},
            "Option 'topik' does not exist for the source rocketmq-store. Did you mean 'topic'?",
        ),
    ],
)
def test_invalid_option_fails_without_a_traceback(spark: Any, options: dict[str, str], sentence: str):
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("rocketmq-store").options(**options).load().collect()
    assert sentence in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "\tat " not in str(caught.value)
