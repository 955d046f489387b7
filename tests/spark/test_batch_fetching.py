"""Tasks of a batch against real brokers that die and expire messages. No Spark runs here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skyrocket.client.queues import Queue
from skyrocket.client.sync import Admin, Message, Producer
from skyrocket.spark.columns import spark_schema
from skyrocket.spark.errors import DataLossError, SparkSourceError, UnreachableClusterError
from skyrocket.spark.options.source_options import source_options
from skyrocket.spark.source.batch_reader import BatchReader
from skyrocket.testing import sync as testing
from tests.support.apache.cluster import NO_TIMERS, ApacheCluster
from tests.support.brokers.forgetting import FORGETFUL, expire
from tests.support.processes.skyrocket_process import Skyrocket, SkyrocketBroker, SkyrocketNameserver
from tests.support.waiting import wait_until

TOPIC = "orders"


def reader(nameserver: str, **options: object) -> BatchReader:
    given = {"nameserver": nameserver, "subscribe": TOPIC, **{name: str(value) for name, value in options.items()}}
    return BatchReader(given, spark_schema(source_options(given).columns))


def batches(reading: BatchReader) -> Iterator[Any]:
    for part in reading.partitions():
        yield from reading.read(part)


def planned(nameserver: str) -> list[range]:
    return [range(part.start, part.stop) for part in reader(nameserver).partitions()]


def places(found: list[Any]) -> list[tuple[int, int]]:
    return [
        (row["queueId"], row["queueOffset"]) for batch in found for row in batch.select(["queueId", "queueOffset"]).to_pylist()
    ]


def fill(nameserver: str, broker_name: str, count: int, queues: int = 2, size: int = 300, **options: Any) -> None:
    with Admin(nameserver, **options) as admin:
        admin.topics.create(TOPIC, queues=queues)
    with Producer(nameserver, **options) as producer:
        for queue_id in range(queues):
            step = min(500, 2_000_000 // size)
            for first in range(0, count, step):
                messages = [Message(TOPIC, b"%d".ljust(size) % number) for number in range(first, min(count, first + step))]
                producer.send_batch(messages, queue=Queue(TOPIC, broker_name, queue_id))


def everything(count: int, queues: int = 2) -> list[tuple[int, int]]:
    return [(queue_id, offset) for queue_id in range(queues) for offset in range(count)]


# --- deaths


def test_read_continues_when_a_killed_broker_is_back(tmp_path: Path):
    with Skyrocket(tmp_path) as process:
        fill(process.nameserver, "broker-a", 9_000)
        found = []
        for batch in batches(reader(process.nameserver)):
            found.append(batch)
            if len(found) in (1, 3):
                process.kill()
                process.start()
    assert places(found) == everything(9_000)


def test_read_continues_when_a_killed_broker_of_apache_is_back(tmp_path: Path):
    with ApacheCluster(tmp_path) as cluster:
        settings = {"mappedFileSizeCommitLog": 16_777_216, "brokerName": "a", **NO_TIMERS}
        broker = cluster.broker(tmp_path / "store", settings)
        fill(cluster.nameserver, "a", 9_000)
        # Apache's broker acknowledges a message before it is in its queue, and a batch ends where the queues end.
        wait_until(lambda: sum(len(part) for part in planned(cluster.nameserver)) == 18_000, "all messages are in the queues")
        found = []
        for batch in batches(reader(cluster.nameserver)):
            found.append(batch)
            if len(found) == 1:
                broker.kill()
                cluster.broker(tmp_path / "store", settings)  # on another port
    assert places(found) == everything(9_000)


def test_broker_that_stays_away_is_an_error(tmp_path: Path):
    with SkyrocketNameserver(tmp_path / "names") as names, SkyrocketBroker(tmp_path / "broker", names.nameserver) as broker:
        fill(names.nameserver, "broker-a", 9_000)
        reading = batches(reader(names.nameserver, retryTimeout="1s"))
        next(reading)
        broker.kill()
        with pytest.raises(UnreachableClusterError, match=r"option 'nameserver' \(127.0.0.1:\d+\) did not answer within 1 s"):
            list(reading)


# --- messages that are gone


def test_messages_deleted_after_planning_are_an_error_or_skipped():
    with testing.LocalBroker(FORGETFUL) as broker:
        fill(broker.nameserver, "broker-a", 400, queues=1, size=500)
        strict, lenient = reader(broker.nameserver), reader(broker.nameserver, failOnDataLoss="false")
        plans = [(reading, reading.partitions()) for reading in (strict, lenient)]
        expire(broker)
        (first,) = reader(broker.nameserver).partitions()
        assert first.start > 0, "nothing has expired"
        with pytest.raises(
            DataLossError, match=f"the queue now starts at offset {first.start}, after offset 0 that was to be read"
        ):
            list(strict.read(plans[0][1][0]))
        assert places(list(lenient.read(plans[1][1][0]))) == [(0, offset) for offset in range(first.start, 400)]


def test_expired_starting_offset_is_an_error_or_the_first_offset():
    with testing.LocalBroker(FORGETFUL) as broker:
        fill(broker.nameserver, "broker-a", 400, queues=1, size=500)
        expire(broker)
        starting = json.dumps({TOPIC: {"0": 3}})
        with pytest.raises(
            DataLossError, match=r"Option 'startingOffsets' is 3 for queue 0 of orders at broker-a, which has offsets \d+ to 400"
        ):
            reader(broker.nameserver, startingOffsets=starting).partitions()
        (part,) = reader(broker.nameserver, startingOffsets=starting, failOnDataLoss="false").partitions()
        assert 3 < part.start < part.stop == 400


def test_topic_deleted_after_planning_is_an_error():
    with testing.LocalBroker() as broker:
        fill(broker.nameserver, "broker-a", 10, queues=1)
        reading = reader(broker.nameserver, retryTimeout="1s")
        (part,) = reading.partitions()
        with Admin(broker.nameserver) as admin:
            admin.topics.delete(TOPIC)
        with pytest.raises(SparkSourceError, match="orders"):
            list(reading.read(part))


# --- how much a broker gives at once


@pytest.mark.parametrize("size", [100, 20_000])
def test_broker_with_large_responses_is_read_in_few_pulls(size: int):
    generous = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(8 * 1024 * 1024)}
    with testing.LocalBroker(generous) as broker:
        fill(broker.nameserver, "broker-a", 1_500, queues=1, size=size)
        found = list(batches(reader(broker.nameserver)))
        assert places(found) == everything(1_500, 1)


def test_planning_is_quick_with_many_queues():
    with testing.LocalBroker() as broker:
        broker.create_topic(TOPIC, queues=512)
        with Producer(broker.nameserver) as producer:
            producer.send(Message(TOPIC, b"one"), queue=Queue(TOPIC, "broker-a", 511))
        began = time.monotonic()
        (part,) = reader(broker.nameserver).partitions()
        assert part.queue.queue_id == 511
        assert time.monotonic() - began < 30
