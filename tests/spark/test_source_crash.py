"""A stream into Parquet while one or another is killed with SIGKILL: each acknowledged message comes out once, as it was sent.

Messages are sent all the time. `SKYROCKET_SPARK_CRASHES` says how many crashes there are of each kind: two, and twenty with
`make spark-crash`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skyrocket.client import sync as client
from tests.support.skyrocket_process import Skyrocket
from tests.support.spark_crash import CRASHES, READY, SEED, Sender, SparkDriver, check_once, eventually, topic_content
from tests.support.spark_streams import written

TOPIC = "killed"
MOMENT_S_MAX = 3.0  # from a working query to the kill
EARLY = 0.15  # of the kills come while the driver is still starting
EARLY_S_MAX = 12.0


class Job:
    """The broker, the sender, the driver, and what came out."""

    def __init__(self, folder: Path, broker: Skyrocket, seed: int) -> None:
        self.out = folder / "out"
        self.broker = broker
        with client.Admin(broker.nameserver) as admin:
            admin.topics.create(TOPIC, queues=4)
        options = {
            "nameserver": broker.nameserver,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "400",
            "minPartitions": "6",
        }
        arguments = {"options": options, "out": str(self.out), "checkpoint": str(folder / "checkpoint")}
        self.sender = Sender(broker.nameserver, TOPIC, seed)
        self.driver = SparkDriver("tests.support.stream_to_parquet", arguments, folder / "driver.log")

    def rows(self) -> int:
        return sum(written(self.out).values())

    def await_progress(self) -> None:
        """It writes again: more than there is now."""
        before = self.rows()
        eventually(lambda: self.rows() > before, f"a batch after {before} rows")

    def check(self) -> None:
        self.sender.stop()
        self.driver.finish()
        check_once(written(self.out), self.sender, topic_content(self.broker.nameserver, TOPIC))
        assert len(self.sender.acknowledged) > 100, "that was no load"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as broker:
        made = Job(tmp_path, broker, SEED)
        with made.driver:
            try:
                yield made
            finally:
                made.sender.stop()


def test_a_driver_that_is_killed_loses_and_repeats_nothing(job: Job):
    chance = random.Random(SEED)
    for _ in range(CRASHES):
        if chance.random() < EARLY:
            time.sleep(chance.uniform(0, EARLY_S_MAX))
        else:
            job.driver.await_word(READY)
            time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.driver.kill()
        job.driver.start()
    job.driver.await_word(READY)
    job.check()


def test_a_worker_that_is_killed_loses_and_repeats_nothing(job: Job):
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    killed: list[Any] = []
    while len(killed) < CRASHES:
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        worker = job.driver.kill_worker(chance)
        if worker is not None:
            killed.append(worker)
            job.await_progress()
    job.check()


def test_a_broker_that_is_killed_loses_and_repeats_nothing(job: Job):
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    for _ in range(CRASHES):
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.broker.kill()
        time.sleep(chance.uniform(0, 1.0))
        job.broker.start()
        job.await_progress()
    job.check()
