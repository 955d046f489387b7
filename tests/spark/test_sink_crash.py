"""A topic into a topic, exactly once, while one or another is killed with SIGKILL: each message comes out once, as it went in.

Messages are sent all the time. `SKYROCKET_SPARK_CRASHES` says how many crashes there are of each kind.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyrocket.client import sync as client
from tests.spark.sink_scenes import seen
from tests.support.skyrocket_process import Skyrocket
from tests.support.spark_crash import CRASHES, READY, SEED, Sender, SparkDriver, eventually

SOURCE, SINK = "raw", "refined"
MOMENT_S_MAX = 3.0  # from a working query to the kill


class Job:
    """The broker, the sender, and the driver."""

    def __init__(self, folder: Path, broker: Skyrocket, seed: int) -> None:
        self.broker = broker
        with client.Admin(broker.nameserver) as admin:
            for topic in (SOURCE, SINK):
                admin.topics.create(topic, queues=4)
        options = {
            "nameserver": broker.nameserver,
            "subscribe": SOURCE,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "300",
            "columns": "body",
        }
        sink = {"nameserver": broker.nameserver, "topic": SINK, "delivery": "exactly-once", "settleTime": "2s"}
        arguments = {"options": options, "sink": sink, "checkpoint": str(folder / "checkpoint")}
        self.sender = Sender(broker.nameserver, SOURCE, seed, per_s=100)
        self.driver = SparkDriver("tests.support.stream_to_topic", arguments, folder / "driver.log")

    def rows(self) -> int:
        with client.PullConsumer(self.broker.nameserver, group="counts") as consumer:
            return sum(consumer.end_offset(queue) for queue in consumer.queues(SINK))

    def await_progress(self) -> None:
        """It writes again: more than there is now."""
        before = self.rows()
        eventually(lambda: self.rows() > before, f"a batch after {before} rows")

    def check(self) -> None:
        self.sender.stop()
        self.driver.finish()
        went_in, came_out = (self.bodies(topic) for topic in (SOURCE, SINK))
        assert len(self.sender.acknowledged) > 100, "that was no load"
        repeated = [body[:20] for body, times in came_out.items() if times > 1 and times > went_in[body]]
        assert not repeated, f"{len(repeated)} of {len(went_in)} rows came more than once, such as {repeated[:3]}"
        lost = [body[:20] for body in went_in if body not in came_out]
        assert not lost, f"{len(lost)} of {len(went_in)} rows are lost, such as {lost[:3]}"
        assert came_out == went_in, "what came out is what went in"

    def bodies(self, topic: str) -> Counter[bytes]:
        return Counter(asyncio.run(seen(self.broker.nameserver, topic)))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with Skyrocket(tmp_path / "broker", {"flushDiskType": "SYNC_FLUSH"}) as broker:
        made = Job(tmp_path, broker, SEED)
        with made.driver:
            try:
                yield made
            finally:
                made.sender.stop()


def test_a_driver_that_is_killed_doubles_and_loses_no_row(job: Job):
    chance = random.Random(SEED)
    for _ in range(CRASHES):
        job.driver.await_word(READY)
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.driver.kill()
        job.driver.start()
    job.driver.await_word(READY)
    job.check()


def test_a_worker_that_is_killed_doubles_and_loses_no_row(job: Job):
    """A task's worker, or the one that commits."""
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    killed = 0
    while killed < CRASHES:
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        if job.driver.kill_worker(chance) is not None:
            killed += 1
            job.await_progress()
    job.check()


def test_a_broker_that_is_killed_doubles_and_loses_no_row(job: Job):
    chance = random.Random(SEED)
    job.driver.await_word(READY)
    for _ in range(CRASHES):
        time.sleep(chance.uniform(0, MOMENT_S_MAX))
        job.broker.kill()
        time.sleep(chance.uniform(0, 1.0))
        job.broker.start()
        job.await_progress()
    job.check()
