"""Streams a topic into Parquet while parts are killed with SIGKILL: each acknowledged message comes out once, unchanged.

A sender runs all the time. `SKYROCKET_SPARK_CRASHES` is the number of crashes of each kind: one by default, twenty with
`make spark-crash`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import sync as client
from tests.support.processes.skyrocket_process import Skyrocket
from tests.support.spark.crash import SEED, Sender, SparkDriver, check_once, topic_content
from tests.support.spark.kills import KilledJob, kill_brokers, kill_drivers, kill_workers, running
from tests.support.spark.streams import read_output

TOPIC = "killed"


class ToParquet(KilledJob):
    def __init__(self, folder: Path, broker: Skyrocket) -> None:
        self._out = folder / "out"
        with client.Admin(broker.nameserver) as admin:
            admin.topics.create(TOPIC, queues=4)
        options = {
            "nameserver": broker.nameserver,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "400",
            "minPartitions": "6",
        }
        arguments = {"options": options, "out": str(self._out), "checkpoint": str(folder / "checkpoint")}
        super().__init__(
            broker,
            Sender(broker.nameserver, TOPIC, SEED),
            SparkDriver("tests.support.spark.stream_to_parquet", arguments, folder / "driver.log"),
        )

    def rows(self) -> int:
        return sum(read_output(self._out).values())

    def check_rows(self) -> None:
        check_once(read_output(self._out), self.sender, topic_content(self.broker.nameserver, TOPIC))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[KilledJob]:
    with running(tmp_path, ToParquet) as made:
        yield made


def test_killed_driver_loses_and_repeats_nothing(job: KilledJob):
    kill_drivers(job)


def test_killed_worker_loses_and_repeats_nothing(job: KilledJob):
    kill_workers(job)


def test_killed_broker_loses_and_repeats_nothing(job: KilledJob):
    kill_brokers(job)
