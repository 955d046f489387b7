"""Streams of Spark while brokers go, come back, and expire messages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from skyrocket.client.queues import Queue
from skyrocket.testing import sync as testing
from tests.support.brokers.forgetting import FORGETFUL, expire
from tests.support.processes.skyrocket_process import SkyrocketBroker, SkyrocketNameserver
from tests.support.spark.streams import Scene


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for query in spark.streams.active:
        query.stop()


def test_stream_reads_the_other_broker_and_continues_when_a_lost_broker_is_back(spark: Any, folder: Path, topic: str):
    with (
        SkyrocketNameserver(folder / "names") as names,
        SkyrocketBroker(folder / "a", names.nameserver, {"brokerName": "broker-a"}),
        SkyrocketBroker(folder / "b", names.nameserver, {"brokerName": "broker-b"}) as lost,
    ):
        scene = Scene(spark, names.nameserver, folder)
        scene.create(topic, 2)
        here, there = Queue(topic, "broker-a", 0), Queue(topic, "broker-b", 0)
        scene.send(topic, 5, queue=here)
        scene.send(topic, 5, queue=there)
        query = scene.start(subscribe=topic)
        scene.await_output(query)
        lost.kill()
        scene.send(topic, 7, queue=here)
        scene.await_output(query)
        lost.start()
        scene.send(topic, 6, queue=there)
        scene.await_output(query)
        query.stop()


def test_expired_messages_fail_the_query_or_are_skipped(spark: Any, folder: Path, topic: str):
    with testing.LocalBroker(FORGETFUL) as broker:
        scene = Scene(spark, broker.nameserver, folder)
        scene.create(topic, 1)
        scene.send(topic, 3)
        scene.run_available(subscribe=topic)
        rows = scene.send(topic, 40, properties={"filling": "x" * 4_000})
        expire(broker)
        # The driver finds the loss, or a task does when the files go between planning and reading.
        by_driver = rf"Offsets 3 to \d+ of queue 0 of {topic} at broker-a expired"
        by_task = rf"Messages of queue 0 of {topic} at broker-a are lost: the queue now starts at offset \d+"
        with pytest.raises(StreamingQueryException, match=f"{by_driver}|{by_task}"):
            scene.run_available(subscribe=topic)
        scene.run_available(subscribe=topic, failOnDataLoss="false")
        left = scene.output() - Counter({row: 1 for row in scene.sent if row.queue_offset < 3})
        kept = [row for row in rows if row in left]
        assert 0 < len(kept) < len(rows)
        assert kept == rows[-len(kept) :], "everything that is left, from the oldest message"
        assert sum(left.values()) == len(kept)


def test_unreachable_nameserver_fails_the_query(spark: Any, folder: Path):
    scene = Scene(spark, "127.0.0.1:9", folder)
    began = time.monotonic()
    with pytest.raises(StreamingQueryException, match=r"option 'nameserver' \(127\.0\.0\.1:9\) did not answer within 1 s"):
        scene.run_available(subscribe="orders", retryTimeout="1s", requestTimeout="300ms")
    assert time.monotonic() - began < 60
